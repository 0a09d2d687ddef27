"""Jobs: what is accepted, the way to the executor's RunSpec, and results."""
