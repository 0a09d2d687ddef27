"""Evaluate the network with images that it has not seen."""

from __future__ import annotations

import argparse
from pathlib import Path

import mlflow
from steps.network import read_model
from steps.split import read_split


def main() -> None:
    """Log the accuracy to MLflow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    arguments = parser.parse_args()
    split = read_split(arguments.split)
    accuracy = float(read_model(arguments.model).score(split.test_images, split.test_labels))
    with mlflow.start_run():
        mlflow.log_metric("accuracy", accuracy)
    print(f"accuracy {accuracy:.4f} on {len(split.test_labels)} images", flush=True)


if __name__ == "__main__":
    main()
