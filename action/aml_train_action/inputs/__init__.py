"""The action's inputs, as typed values."""
