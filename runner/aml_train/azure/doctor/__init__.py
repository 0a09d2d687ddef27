"""Checks of a workspace in Azure: identity, roles, compute, registry, network."""
