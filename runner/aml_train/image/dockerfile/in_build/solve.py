"""Asks the base's own pip what it would install, and writes down its answer.

Run in a build, by whatever Python the base has (3.7 or later), as ``python solve.py RESULT [OPTION…] (-- ARGUMENT…)…``: the arguments of each
step of ``pip install``. Nothing is installed, and nothing judged: :mod:`aml_train.image.solve` does that. The steps are resolved together; if
that fails, each by itself, as the build resolves them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = 60.0
AZUREML = ("azureml-defaults", "azureml-mlflow")


def ask(arguments: list[str], deadline: float) -> dict[str, Any]:
    """Return exit code, output, versions to install, and the first page of an index that was not had.

    The exit code is 124 after *deadline*, which is one of ``time.monotonic``.
    """
    with tempfile.TemporaryDirectory() as name:
        report, log, output = (Path(name, one) for one in ("report", "log", "output"))
        command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--dry-run"]
        # An index that does not answer at once leaves nothing to conclude.
        options = ["--retries=0", "--timeout=10", f"--report={report}", f"--log={log}"]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*command, *options, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout=max(deadline - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = 124
        missed = [line for line in read(log).splitlines() if is_missed(line)]
        items = json.loads(read(report))["install"] if code == 0 else []
        versions = {item["metadata"]["name"]: item["metadata"]["version"] for item in items}
        return {"code": code, "output": read(output), "versions": versions, "missed": missed[:1]}


def is_missed(line: str) -> bool:
    """Return whether pip's log says that an index did not answer.

    Of several indexes, most lack most packages.
    """
    return "Could not fetch URL" in line and "404 Client Error" not in line


def read(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def left_behind(words: list[str], output: str) -> str:
    """Return ``NAME==VERSION`` of the first version that pip tried of an unpinned package of AzureML's, if it went on to others; else empty."""
    for name in AZUREML:
        tried = dict.fromkeys(re.findall(rf"\b{name.replace('-', '_')}-(\d[^-\s]*)-", output))
        if name in words and len(tried) > 1:
            return f"{name}=={next(iter(tried))}"
    return ""


def main(result: str, words: list[str]) -> None:
    """Write the answers to the file *result*."""
    deadline = time.monotonic() + SECONDS
    marks = [number for number, word in enumerate(words) if word == "--"]
    common = words[: marks[0]]
    steps = [words[start + 1 : end] for start, end in zip(marks, [*marks[1:], len(words)])]  # noqa: B905 - 3.7 has no strict
    # A requirement without a hash is refused next to those that have one.
    together = None
    if len(steps) > 1 and "--require-hashes" not in words:
        together = ask([*common, *(word for step in steps for word in step)], deadline)
    is_told = together and (together["code"] == 0 or together["missed"])
    each = [] if is_told else [ask([*common, *step], deadline) for step in steps]
    request = left_behind(words, "".join(one["output"] for one in [together, *each] if one))
    newest = {**ask([*common, request], time.monotonic() + SECONDS / 3), "request": request} if request else None
    answer = {
        "python": ".".join(map(str, sys.version_info[:2])),
        "pins": {path: read(Path(path)) for path in os.environ.get("PIP_CONSTRAINT", "").split()},
        "together": together,
        "steps": each,
        "newest": newest,
    }
    Path(result).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
