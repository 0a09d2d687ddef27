"""Benchmarks: ratios against named baselines, measured in one run.

Nothing here is a test: they print and exit 0.
"""
