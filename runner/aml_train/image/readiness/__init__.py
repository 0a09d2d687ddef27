"""Checks of an image: AzureML, GPU, InfiniBand."""
