"""The interfaces of azureml-core."""
