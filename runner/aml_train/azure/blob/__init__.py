"""Data in the datastores of a workspace: list, upload and download."""
