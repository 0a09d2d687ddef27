"""The answers that Azure's clients declare, and the check of recorded answers.

``azure-ai-ml.json``, ``run-history.json`` and ``azureml-core.json`` hold operations (method, path, the model of each status) and models (the
type of each field). Types: ``str``, ``int``, ``number``, ``bool``, ``any``, ``time`` and ``duration`` (ISO 8601), ``[T]``,
``{T}`` (a map from names), or a model; ``?`` allows null and absence. ``by`` and ``kinds`` choose a narrower model by the
value of a field; ``more`` says why a model does not list all of its fields. ``undeclared.json`` says why an answer holds what the client does not declare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DURATION = re.compile(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
SIMPLE: Mapping[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "number": (int, float)}


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One client's declarations."""

    operations: tuple[tuple[str, tuple[str, ...], Mapping[str, str]], ...]
    models: Mapping[str, Mapping[str, Any]]
    errors: str

    def model_of(self, method: str, path: str, status: int) -> str | None:
        """Return the model of an answer; None where none is declared."""
        given = path.strip("/").split("/")
        for known, parts, answers in self.operations:
            if known == method and _is_path(parts, given):
                return self.errors if status >= 400 else answers.get(str(status))
        return None

    def deviations(self, value: Any, type_: str, at: str = "") -> Iterator[str]:
        """Yield where a value is not of a type; ``Model.field: undeclared`` for what its model does not know."""
        optional = type_.endswith("?")
        bare = type_.removesuffix("?")
        if value is None:
            if not optional and bare != "any":
                yield f"{at}: null, not {bare}"
        elif bare.startswith(("[", "{")):
            wanted, inner = (list, bare[1:-1]) if bare.startswith("[") else (dict, bare[1:-1])
            if not isinstance(value, wanted):
                yield f"{at}: {type(value).__name__}, not {bare}"
                return
            items = enumerate(value) if isinstance(value, list) else value.items()
            for key, item in items:
                yield from self.deviations(item, inner, f"{at}.{key}")
        elif bare in self.models:
            yield from self._object(value, bare, at)
        elif not is_of(value, bare):
            yield f"{at}: {value!r:.80} is not {bare}"

    def _object(self, value: Any, name: str, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{at}: {type(value).__name__}, not {name}"
            return
        model = self.models[name]
        if "by" in model:
            kind = value.get(model["by"])
            if kind not in model["kinds"]:
                yield f"{at}.{model['by']}: {kind!r} is no kind of {name}"
                return
            if model["kinds"][kind] != name:
                yield from self._object(value, model["kinds"][kind], at)
                return
        for key, type_ in model["fields"].items():
            if key not in value:
                if not type_.endswith("?"):
                    yield f"{at}.{key}: absent, and {name} requires it"
            else:
                yield from self.deviations(value[key], type_, f"{at}.{key}")
        for key in () if model.get("more") else value.keys() - model["fields"].keys():
            yield f"{name}.{key}: undeclared"


def load(name: str) -> Contract:
    """Return the contract of that name."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    operations = tuple(
        (one["method"], tuple(one["path"].strip("/").split("/")), one["answers"]) for one in data["operations"]
    )
    return Contract(operations=operations, models=data["models"], errors=data["errors"])


def undeclared() -> dict[str, str]:
    """Return the reasons for what is answered beyond the declarations, by ``Model.field``."""
    reasons: dict[str, str] = json.loads((FOLDER / "undeclared.json").read_text(encoding="utf-8"))
    return reasons


def check(answers: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], set[str], set[str], set[str]]:
    """Check recorded answers.

    Args:
        answers: as `tests.support.answers` writes them.

    Returns:
        deviations, each with the request that showed it; undeclared fields; the operations that were checked, and those
        without a declaration.
    """
    contracts = [load("azure-ai-ml"), load("run-history"), load("azureml-core")]
    wrong: dict[str, str] = {}
    beyond: set[str] = set()
    checked: set[str] = set()
    without: set[str] = set()
    for answer in answers:
        request = f"{answer['method']} {general(answer['path'])}"
        found = [
            (contract, model)
            for contract in contracts
            if (model := contract.model_of(answer["method"], answer["path"], answer["status"])) is not None
        ]
        if not found:
            without.add(f"{request} {answer['status']}")
        for contract, model in found:
            checked.add(f"{request} {answer['status']}")
            for deviation in contract.deviations(answer["body"], model):
                if deviation.endswith(": undeclared"):
                    beyond.add(deviation.removesuffix(": undeclared"))
                else:
                    wrong.setdefault(f"{model} {deviation}", request)
    return wrong, beyond, checked, without


def is_of(value: Any, type_: str) -> bool:
    """Return whether a value is of a simple type."""
    if type_ == "any":
        return True
    if type_ == "time":
        return isinstance(value, str) and _is_time(value)
    if type_ == "duration":
        return isinstance(value, str) and DURATION.fullmatch(value) is not None
    # A bool is an int in Python, and not in JSON.
    return isinstance(value, SIMPLE[type_]) and (type_ == "bool" or not isinstance(value, bool))


def general(path: str) -> str:
    """Return a path without the names that differ between runs."""
    short = re.sub(r"/subscriptions/.*?/workspaces/[^/]+", "{WS}", path, flags=re.IGNORECASE)
    short = re.sub(r"^/subscriptions/[^/]+", "/subscriptions/{sub}", short)
    return re.sub(
        r"/(versions|runs|jobs|experiments|experimentids|computes|operationResults|computeOperationsStatus)/[^/]+",
        r"/\1/{}",
        short,
    )


def _is_path(parts: Sequence[str], given: Sequence[str]) -> bool:
    if parts[-1].endswith("*}"):
        return len(given) >= len(parts) and all(map(_fits, parts, given[: len(parts)]))
    return len(parts) == len(given) and all(map(_fits, parts, given))


def _fits(part: str, segment: str) -> bool:
    return part.startswith("{") or part.lower() == segment.lower()


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
