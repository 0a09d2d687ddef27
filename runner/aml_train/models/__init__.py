"""Models: registration, lineage and stages."""
