"""Recordings of a workspace's answers, without its names, ids and secrets."""
