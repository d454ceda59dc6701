"""Memory: records and notes that are kept for a scope, and forgotten when asked."""
