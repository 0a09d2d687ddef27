"""Stages of models: who is in production, who may get there, and who was there before."""
