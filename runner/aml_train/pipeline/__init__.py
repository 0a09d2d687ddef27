"""The pipeline: from a commit to a gated, registered model."""
