"""The GitHub skin over the pipeline: inputs, outputs, summary, annotations, signals."""
