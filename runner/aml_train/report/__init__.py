"""The report of a run, which people read: its values, and their JSON."""
