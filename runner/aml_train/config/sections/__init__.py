"""The sections of aml-train.yml."""
