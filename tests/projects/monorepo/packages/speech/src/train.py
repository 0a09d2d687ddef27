import mlflow

mlflow.log_metric("speech/error", 0.1)
