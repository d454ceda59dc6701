"""Outer forms of the one engine: JSON in, JSON out, each with its own vocabulary."""
