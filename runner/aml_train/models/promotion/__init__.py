"""Stages of models: promote, roll back, history."""
