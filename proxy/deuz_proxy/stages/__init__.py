"""The stages of the line; none imports another."""
