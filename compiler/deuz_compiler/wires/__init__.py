"""One room for each provider API, and what they share."""
