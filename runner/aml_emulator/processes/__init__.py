"""Child processes: Azurite, the registry, and their supervision."""
