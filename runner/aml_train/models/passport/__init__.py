"""The passport of a model: a signed statement of where it comes from."""
