"""Where state lives; each store answers the same suite of tests."""
