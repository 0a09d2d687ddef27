import mlflow

mlflow.log_metric("score", 0.9)
