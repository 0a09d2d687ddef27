import mlflow


def main() -> None:
    mlflow.log_metric("val/accuracy", 0.9)
    mlflow.log_metric("train/loss", 0.1)


if __name__ == "__main__":
    main()
