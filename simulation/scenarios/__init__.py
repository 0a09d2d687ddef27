"""Scenarios: worlds and what must hold in them."""
