"""The local AzureML: REST services, proxy, TLS and job executor. Knows nothing of aml_train."""
