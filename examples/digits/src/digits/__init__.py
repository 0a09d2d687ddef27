"""Handwritten digits: the example's data, training loop and saved model."""
