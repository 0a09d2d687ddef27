"""Builders: what builds an image, pushes it as a candidate, and verifies it."""
