"""Identities, tokens and federated credentials."""
