"""The HTTP interfaces of the local AzureML: parse, call the domain, shape answers."""
