"""An emulator that writes every answer down, for the checks of `tests.contracts`."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from starlette.responses import Response

from aml_emulator.__main__ import main
from aml_emulator.api.app import App
from aml_emulator.api.errors import ServiceError
from aml_emulator.api.routing import Call

VARIABLE = "AML_TRAIN_TEST_ANSWERS"
"""The file that answers are written to."""


def record_answers(path: Path) -> None:
    """Have every answer of the service written to a file, a line of JSON each."""
    answer, lock = App.answer, threading.Lock()

    def recorded(app: App, call: Call, error: ServiceError | None = None) -> Response:
        response = answer(app, call, error)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        line = {
            "method": call.method,
            "path": call.path,
            "status": response.status_code,
            "body": json.loads(bytes(response.body)) if is_json and response.body else None,
        }
        with lock, path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
        return response

    App.answer = recorded  # type: ignore[assignment,method-assign]


def record_as_told() -> None:
    """Record answers if the environment names a file."""
    if path := os.environ.get(VARIABLE):
        record_answers(Path(path))


if __name__ == "__main__":
    record_as_told()
    sys.exit(main())
