"""The local AzureML: REST services, proxy, TLS and job executor."""
