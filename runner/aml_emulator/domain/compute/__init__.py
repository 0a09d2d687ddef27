"""Compute clusters, their nodes, and VM sizes."""
