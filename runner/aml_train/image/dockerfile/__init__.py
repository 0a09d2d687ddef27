"""Dockerfiles: ours, rendered, and the user's own."""
