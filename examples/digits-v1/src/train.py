"""Train the digits model and log it with the SDK v1: in AzureML, or by hand.

``Run.get_context()`` is the run that this script is part of. By hand it is an offline run, which prints what is logged.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from azureml.core import Run

from digits import confusion, train


def main(argv: Sequence[str] | None = None) -> None:
    """Train, log every epoch, save the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--model-dir", type=Path, default=Path("outputs/model"))
    arguments = parser.parse_args(argv)
    if arguments.epochs < 1:
        parser.error("at least one epoch is needed")

    run = Run.get_context()
    run.tag("learning rate", str(arguments.learning_rate))
    for epoch, weights in train(arguments.epochs, arguments.learning_rate):
        trained = weights
        run.log("train/loss", epoch.train_loss)
        run.log("val/loss", epoch.val_loss)
        run.log("val/accuracy", epoch.val_accuracy)
        print(f"epoch {epoch.number:>3}/{arguments.epochs}  {epoch}", flush=True)
    run.log_row("end", epoch=epoch.number, accuracy=epoch.val_accuracy)
    labels, matrix = [str(digit) for digit in range(10)], confusion(trained).tolist()
    content = {"class_labels": labels, "matrix": matrix}
    run.log_confusion_matrix(
        "confusion", {"schema_type": "confusion_matrix", "schema_version": "1.0.0", "data": content}
    )

    arguments.model_dir.mkdir(parents=True, exist_ok=True)
    np.save(arguments.model_dir / "weights.npy", trained)
    print(f"saved the model to {arguments.model_dir}", flush=True)


if __name__ == "__main__":
    main()
