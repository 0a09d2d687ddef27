"""The report of a run: its record, the outputs and the job summary."""
