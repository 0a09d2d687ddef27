import mlflow

mlflow.log_metric("r2", 0.9)
