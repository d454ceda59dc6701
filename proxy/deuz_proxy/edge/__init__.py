"""Sockets: the inbound side, the upstream side, the admin address."""
