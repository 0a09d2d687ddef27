"""Replay a recorded incident: the product's own pipeline, answered from a bundle."""
