"""Builders, strategies and stand-ins that more than one test file uses."""
