"""The gate: metric rules and the decision over them. Pure."""
