"""Ratios against named baselines, measured side by side in one run. Nothing here is a test: they print and exit 0."""
