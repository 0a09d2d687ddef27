"""Scripts that run inside a build, in the image's own Python.

They import nothing of aml-train.
"""
