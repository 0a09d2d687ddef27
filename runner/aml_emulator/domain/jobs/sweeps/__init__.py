"""Sweep jobs: their search space, their trials, and when trials end early."""
