"""YAML with the line of each value, and shapes that check values."""
