"""Data of a workspace: list, upload, download, copy and remove what its datastores hold."""
