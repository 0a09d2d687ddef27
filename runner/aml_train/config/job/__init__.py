"""Command jobs: AzureML's CLI v2 YAML."""
