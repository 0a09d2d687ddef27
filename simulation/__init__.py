"""Deterministic simulation of the product, its services and their faults."""
