"""Listeners: where events go."""
