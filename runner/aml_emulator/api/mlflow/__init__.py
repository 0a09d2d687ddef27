"""MLflow's tracking and model registry interfaces."""
