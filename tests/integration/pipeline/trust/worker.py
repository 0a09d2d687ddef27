"""Runs the pipeline in this process, once for each folder that it is told, and writes how each run ended.

A process of its own, because a run is one: it points the process at its workspace, and azure-ai-ml is kept quiet by turning the
process's outputs away. Usage: ``worker.py RESULTS FOLDER...``.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from aml_train.config.load import load_config
from aml_train.core.events import Event, LogLines
from aml_train.image.spec import Tested
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.result import RunOptions
from aml_train.pipeline.target import Host


def run(folder: Path) -> dict[str, Any]:
    """Run the project in *folder* and return how that ended."""
    events: list[Event] = []
    began = time.monotonic()
    try:
        prepared = prepare_run(load_config(None, directory=folder), Host(environ=os.environ))
        outcome = run_prepared(prepared, RunOptions(), listeners=[events.append])
    except Exception:  # noqa: BLE001 - whatever it is, it is this run's end and not that of the others
        return {"folder": folder.name, "code": 1, "status": "error", "message": traceback.format_exc()}
    return {
        "folder": folder.name,
        "code": outcome.exit_code,
        "status": outcome.status,
        "message": outcome.message,
        "attached": outcome.attached,
        "image": outcome.image.how if isinstance(outcome.image, Tested) else None,
        "job": outcome.job and outcome.job.name,
        "model": outcome.model and [outcome.model.name, outcome.model.version],
        "log": [line for event in events if isinstance(event, LogLines) for line in event.text.split("\n")],
        "seconds": time.monotonic() - began,
    }


def main(results: Path, folders: list[Path]) -> None:
    """Run them one after the other; a line of JSON tells of each."""
    with results.open("a", encoding="utf-8") as file:
        for folder in folders:
            file.write(json.dumps(run(folder)) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
