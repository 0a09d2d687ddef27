"""Handwritten digits: the files that the steps of the pipeline pass to each other."""
