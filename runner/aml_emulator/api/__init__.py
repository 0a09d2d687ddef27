"""The HTTP interfaces of the local AzureML: parse a request, call the domain, shape the answer."""
