"""What a user's scripts do with environments, with the real azure-ai-ml. Run as a program: see client_steps.py."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from client_steps import client, wait  # type: ignore[import-not-found]  # it lies beside this script

from tests.integration.emulator.holding import logs_so_far

BASE = "python:3.11-slim-bookworm"


def _context(given: dict[str, str], name: str, dockerfile: str, **files: str) -> str:
    folder = Path(given["folder"], "contexts", name)
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(dockerfile)
    for path, text in files.items():
        (folder / path).write_text(text)
    return str(folder)


def _submit(ml: Any, environment: Any, text: str) -> str:
    from azure.ai.ml import command

    job = command(command=text, environment=environment, compute="local-cluster")
    return str(ml.jobs.create_or_update(job).name)


def _downloaded(given: dict[str, str], ml: Any, name: str) -> dict[str, str]:
    """Return the logs of a job by their path."""
    target = Path(given["folder"], "downloads", name)
    ml.jobs.download(name, download_path=target, all=True)
    root = target / "artifacts"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.txt")}


def _await_waiting(given: dict[str, str], *jobs: str) -> None:
    """Return once one of the jobs waits for the image that the other one builds."""
    deadline = time.monotonic() + 600
    while not any("waiting for it" in text for job in jobs for text in logs_so_far(given, job).values()):
        assert time.monotonic() < deadline, "no job waits"
        time.sleep(0.2)


def contexts(given: dict[str, str]) -> dict[str, Any]:
    """Environments of build contexts: built once for two jobs, streamed while it builds, failing, cancelled."""
    from azure.ai.ml.entities import BuildContext, Environment

    ml = client(given)
    mark = given["mark"]
    good = _context(
        given,
        "good",
        f"FROM {BASE}\nCOPY . /context/\nRUN echo step {mark} && {given['held']}\nENV MADE_BY={mark}\n",
        **{"kept.txt": "kept", "left.pyc": "left", ".dockerignore": "*.pyc\n"},
    )
    environment = ml.environments.create_or_update(
        Environment(name="from-context", build=BuildContext(path=good), version="1")
    )
    bad = _submit(
        ml,
        Environment(build=BuildContext(path=_context(given, "bad", f"FROM {BASE}\nRUN echo {mark}-why; exit 7\n"))),
        "true",
    )
    slow = _submit(
        ml,
        Environment(
            build=BuildContext(path=_context(given, "slow", f"FROM {BASE}\nRUN echo {mark}-slow; sleep 36000\n"))
        ),
        "true",
    )
    first = _submit(ml, "from-context:1", "ls /context; echo $MADE_BY")
    second = _submit(ml, "from-context:1", "echo $MADE_BY")
    streamed = io.StringIO()
    with contextlib.redirect_stdout(streamed):
        following = threading.Thread(target=ml.jobs.stream, args=(slow,), daemon=True)
        following.start()
        deadline = time.monotonic() + 600
        while f"{mark}-slow\n" not in streamed.getvalue() and time.monotonic() < deadline:
            time.sleep(0.2)
        seen = ml.jobs.get(slow).status
        ml.jobs.begin_cancel(slow).result()
        wait(ml, slow)
        following.join(timeout=600)
    _await_waiting(given, first, second)
    requests.post(given["gate"], timeout=300).raise_for_status()
    wait(ml, first)
    wait(ml, second)
    wait(ml, bad)
    third = _submit(ml, "from-context:1", "echo again")
    wait(ml, third)
    return {
        "path": environment.build.path,
        "streamed": streamed.getvalue(),
        "logs": {
            name: _downloaded(given, ml, job)
            for name, job in (("first", first), ("second", second), ("third", third))
        },
        "bad": [ml.jobs.get(bad).status, ml.jobs.get(bad).properties["errorMessage"]],
        "slow": [seen, ml.jobs.get(slow).status],
    }


def conda(given: dict[str, str]) -> dict[str, Any]:
    """Environments of a conda file over an image that has a tool, and over one that has none."""
    from azure.ai.ml.entities import Environment

    ml = client(given)
    file = Path(given["folder"], "conda.yml")
    file.write_text(f"channels:\n  - {given['channel']}\ndependencies:\n  - tool=1.0\n")
    names = {
        name: _submit(
            ml, Environment(image=image, conda_file=str(file)), "tool; echo $AZUREML_CONDA_ENVIRONMENT_PATH"
        )
        for name, image in (("own", given["image"]), ("fetched", BASE))
        if name in given["jobs"].split()
    }
    return {
        name: [wait(ml, job)[-1], ml.jobs.get(job).properties.get("errorMessage"), _downloaded(given, ml, job)]
        for name, job in names.items()
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"contexts": contexts, "conda": conda}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))) + "\n")
