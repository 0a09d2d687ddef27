import mlflow


def main() -> None:
    mlflow.log_metric("loss", 1.0)


if __name__ == "__main__":
    main()
