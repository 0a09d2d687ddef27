import mlflow

mlflow.log_metric("f1", 0.5)
mlflow.log_metrics({"precision": 0.5, "val loss": 0.25}, step=1)
