"""The page of the local AzureML, for people: read-only and self-contained."""
