"""Train the network, and log the loss of each epoch to MLflow."""

from __future__ import annotations

import argparse
from pathlib import Path

import mlflow
from steps.network import train, write_model
from steps.split import read_split


def main() -> None:
    """Train, log every epoch, save the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    split = read_split(arguments.split)
    with mlflow.start_run():
        mlflow.log_params({"epochs": arguments.epochs, "learning_rate": arguments.learning_rate})
        for number, model in enumerate(
            train(split, epochs=arguments.epochs, learning_rate=arguments.learning_rate, seed=arguments.seed), 1
        ):
            mlflow.log_metric("loss", float(model.loss_), step=number)
            print(f"epoch {number:>3}/{arguments.epochs}  loss {model.loss_:.4f}", flush=True)
    write_model(arguments.model, model)


if __name__ == "__main__":
    main()
