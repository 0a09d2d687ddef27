"""The container of the local AzureML: start, stop, settings, environment."""
