"""Runs the jobs of the local AzureML as containers on the Docker engine."""
