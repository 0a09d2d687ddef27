"""What the repository's own machinery runs: nothing here is installed with the package."""
