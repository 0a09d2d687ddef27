"""Shapes of Azure's recorded answers, and the comparison of answers with them.

The files are reduced from azure-ai-ml's own test recordings (Azure/azure-sdk-for-python,
sdk/ml/azure-ai-ml/tests/recordings, up to June 2023; ``newer.json`` from Azure/azure-sdk-assets) and promptflow's (microsoft/promptflow):
of each exchange its method, its path with names for what differs, its status, and the kinds of the values of its answer. Of an
operation's recordings the newest count, and of jobs the newest of each type. ``differences.json`` says what the
local AzureML answers otherwise on purpose, by patterns of operations and of places in an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FORMS = {
    "time": re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})?"),
    "duration": re.compile(r"P(?=.)(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|\d+(\.\d+)?:\d{2}:\d{2}(\.\d+)?"),
    "url": re.compile(r"https?://.*|azureml://.*"),
    "azureml": re.compile(r"(azureml|aml):.*"),
    "arm": re.compile(r"/subscriptions/.*"),
}
USERS = frozenset(["tags", "properties", "parameters", "flavors", "inputs", "outputs", "logFiles"])
"""Objects with keys of users."""


def differences() -> Mapping[str, Mapping[str, str]]:
    """Return the reasons of what differs on purpose, by patterns of operations, then of places."""
    found: dict[str, dict[str, str]] = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))
    return found


def every() -> list[dict[str, Any]]:
    """Return all recordings, those after June 2023 with their month."""
    files = [path for path in sorted(FOLDER.glob("*.json")) if path.name != "differences.json"]
    return [one for path in files for one in json.loads(path.read_text(encoding="utf-8"))]


def unlike(answers: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, str]], set[str]]:
    """Compare answers with the recorded ones to the same operation.

    Args:
        answers: as `tests.support.answers` writes them.

    Returns:
        by operation, the places where an answer is like none that was recorded, each with what differs there; and the
        operations that were compared.
    """
    newest: dict[tuple[str, str, int, str], list[dict[str, Any]]] = {}
    for one in sorted(every(), key=lambda one: str(one.get("month", ""))):
        known = newest.setdefault((one["method"], one["path"], one["status"], _job_type(one["answer"])), [])
        if known and known[0].get("month") != one.get("month"):
            known.clear()
        known.append(one)
    recorded = [(_pattern(path), one) for (_, path, *_), ones in newest.items() for one in ones]
    wrong: dict[str, dict[str, str]] = {}
    compared = set()
    for answer in answers:
        found: list[dict[str, str]] = []
        for pattern, one in recorded:
            same = (answer["method"], answer["status"]) == (one["method"], one["status"])
            if same and pattern.fullmatch(answer["path"]) and _job_type(one["answer"]) == _job_type(answer["body"]):
                operation = f"{one['method']} {one['path']}"
                found.append(
                    {
                        at: what
                        for at, what in deviations(one["answer"], answer["body"])
                        if not _allowed(operation, at)
                    }
                )
        if found:
            compared.add(f"{operation} {answer['status']}")
            if best := min(found, key=len):
                wrong[f"{operation} {answer['status']}"] = best
    return wrong, compared


def _job_type(body: Any) -> str:
    """Return the type of the job that a body shows, empty for another body."""
    properties = body.get("properties") if isinstance(body, dict) else None
    return str(properties.get("jobType") or "").lstrip("=") if isinstance(properties, dict) else ""


def _pattern(path: str) -> re.Pattern[str]:
    """Return what paths of an operation are like."""
    workspace = path.replace(
        "{WS}", "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.MachineLearningServices/workspaces/{}"
    )
    return re.compile("[^/]+".join(map(re.escape, re.split(r"\{\w*\}", workspace))), re.IGNORECASE)


def _allowed(operation: str, place: str) -> bool:
    return any(
        fnmatchcase(operation, pattern) and any(fnmatchcase(place, known) for known in places)
        for pattern, places in differences().items()
    )


def deviations(recorded: Any, given: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield where a value is not of a recorded shape: the place, and what differs.

    Null fits everywhere, for it depends on the request. Keys that the recording does not have are none of this comparison's concern: newer
    versions of the interface add some, and `tests.contracts` knows which of them clients declare.
    """
    if recorded in (None, "null", "object") or given is None:
        return
    if isinstance(recorded, dict):
        if not isinstance(given, dict):
            yield at, f"{type(given).__name__}, not an object"
            return
        for key, shape in recorded.items():
            if key in given:
                yield from deviations(shape, given[key], f"{at}.{key}")
            elif at.rpartition(".")[2] not in USERS or len(key) != 2:
                yield f"{at}.{key}", "absent"
    elif isinstance(recorded, list):
        if not isinstance(given, list):
            yield at, f"{type(given).__name__}, not a list"
            return
        for item in given if recorded else ():
            yield from min((list(deviations(shape, item, f"{at}[]")) for shape in recorded), key=len)
    else:
        kind = str(recorded).partition(":")[0]
        wanted = {"flag": (bool,), "number": (int, float)}.get(kind, (str,))
        form = FORMS.get(kind)
        if (
            not isinstance(given, wanted)
            or isinstance(given, bool) != (kind == "flag")
            or (form is not None and form.fullmatch(str(given)) is None)
        ):
            yield at, f"{given!r:.80}, recorded {recorded}"
