"""How many tokens a text, a picture or a request is likely to have."""
