"""AzureML jobs: what is submitted, what states there are, how a run is watched."""
