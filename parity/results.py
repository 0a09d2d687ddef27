"""Results of comparisons, as the page of operations shows them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aml_train.azure.parity.file import Recording
from aml_train.core.errors import InvalidError
from parity.accepted import Judged
from parity.differences import operation_of

FOLDER: Final = Path(__file__).with_name("results")
_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one comparison.

    Attributes:
        name: of the recording's file, without its ending.
        header: of the recording: versions and the kind of its compute.
        steps, requests: how many were recorded.
        compared: operation → how many requests of it were compared.
        differences: those without a reason, as text by field.
        accepted: how many have a reason.
    """

    name: str
    header: Mapping[str, Any]
    steps: int
    requests: int
    compared: Mapping[str, int]
    differences: tuple[Mapping[str, str], ...]
    accepted: int

    def by_operation(self) -> dict[str, int]:
        """Return the number of differences without a reason, by operation."""
        return dict(Counter(one["operation"] for one in self.differences))


def result_of(name: str, recording: Recording, judged: Judged) -> Result:
    """Return the result of a comparison that was judged."""
    return Result(
        name=name,
        header=dict(recording.header),
        steps=len(recording.steps()),
        requests=len(recording.exchanges()),
        compared=dict(sorted(Counter(operation_of(one) for one in recording.exchanges()).items())),
        differences=tuple({**asdict(one), "severity": one.severity} for one in judged.left),
        accepted=len(judged.accepted),
    )


def write_result(result: Result, folder: Path = FOLDER) -> Path:
    """Write a result; it replaces that of the same recording."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{result.name}.json"
    file.write_text(json.dumps({"format": _FORMAT, **asdict(result)}, indent=1) + "\n", encoding="utf-8")
    return file


def read_results(folder: Path = FOLDER) -> list[Result]:
    """Return the results in a folder, by name; none if there is no folder.

    Raises:
        InvalidError: a file is no result.
    """
    found = []
    for file in sorted(folder.glob("*.json")):
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            known = {key: value for key, value in data.items() if key != "format"}
            found.append(Result(**{**known, "differences": tuple(data["differences"])}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidError(f"{file} is no result of a comparison: {error}") from error
    return found


def compared_by_operation(results: Iterable[Result]) -> dict[str, tuple[int, int]]:
    """Return operation → compared requests, and differences without a reason."""
    requests: Counter[str] = Counter()
    differences: Counter[str] = Counter()
    for one in results:
        requests.update(one.compared)
        differences.update(one.by_operation())
    return {operation: (count, differences[operation]) for operation, count in requests.items()}
