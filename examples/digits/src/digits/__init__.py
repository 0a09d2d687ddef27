"""Handwritten digits: the data, the training loop and the saved model of the example."""
