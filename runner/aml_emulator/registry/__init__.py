"""The container registry and ACR's interfaces in front of it."""
