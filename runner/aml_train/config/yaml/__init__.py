"""YAML with the line of each value, and the shapes that values are checked against."""
