import mlflow

mlflow.log_metric("vision/error", 0.1)
