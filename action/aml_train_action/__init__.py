"""The GitHub action: inputs, outputs, summary, annotations and signals of a run."""
