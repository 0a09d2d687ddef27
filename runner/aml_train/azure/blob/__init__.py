"""Data in the datastores of a workspace: list, upload, download, copy and remove."""
