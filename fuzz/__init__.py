"""Fuzzers of every parser: ``python -m fuzz``.

They look for inputs that end in anything but an answer or one of the product's errors. docs/fuzzing.md describes their use.
"""
