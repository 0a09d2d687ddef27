import mlflow

mlflow.log_metric("f1", 0.5)
