"""Run configurations: azureml-core's YAML."""
