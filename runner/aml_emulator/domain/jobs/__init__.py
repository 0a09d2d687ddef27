"""Jobs: what is accepted, how a job becomes the executor's RunSpec, and its results."""
