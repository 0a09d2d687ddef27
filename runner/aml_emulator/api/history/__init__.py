"""Run history and artifacts."""
