"""The page of the local AzureML's operations: clients, recordings, limits.

Operations are the routes of the emulator; ``tests/contracts/clients.json`` says which clients the tests call them with, and
``tests/contracts/recorded`` has the facts of recorded conversations with Azure.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from aml_emulator.api.app import App
from aml_emulator.api.routing import Route
from scripts.docs.markdown import docstring, page, paragraph, table
from tests.contracts.recorded.facts import Exchange, read_facts

PAGE: Final = Path("docs/emulator-coverage.md")
_RECORDED: Final = Path("tests/contracts/recorded")
_CLIENTS: Final = Path("tests/contracts/clients.json")
_PROVIDER: Final = "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices"

SECTIONS: Final = {
    "{WS}": "Azure Resource Manager: the workspace",
    _PROVIDER: "Azure Resource Manager: locations and registries",
    "/history/": "Run history",
    "/mlflow/": "MLflow",
    "/metric/": "Metrics",
    "/artifact/": "Artifacts",
    "/execution/": "Execution",
    "/content/": "Snapshots",
    "/environment/": "Environments of azureml-core",
    "/modelmanagement/": "Models of azureml-core",
    "/data/": "Datasets of azureml-core",
    "/studioservice/": "The studio's service",
    "/mferp/": "Registries: assets",
    "": "Other addresses",
}
"""Titles of the page's tables, by the beginning of a path; the first that fits."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the emulator, and who knows it.

    Attributes:
        method: HTTP's.
        path: the route's, for example ``{WS}/jobs/{name}``.
        meaning: its first line of documentation.
        clients: those whose tests call it.
        recorded: how many different exchanges were recorded, by status.
    """

    method: str
    path: str
    meaning: str
    clients: tuple[str, ...]
    recorded: Mapping[int, int]


def coverage(root: Path) -> str:
    """Return the page."""
    routes = emulator_routes()
    facts = recorded_facts(root)
    clients = json.loads((root / _CLIENTS).read_text(encoding="utf-8"))
    operations = [_operation(route, facts, clients) for route in routes]
    known = {general(route.method, route.path) for route in routes}
    elsewhere = _absent(facts, known)
    held, refused = _counts(root)
    intro = (
        f"The operations of the local AzureML: {len(operations)}, of which {sum(bool(one.clients) for one in operations)} are"
        f" called by unmodified clients in tests and {sum(bool(one.recorded) for one in operations)} were seen in"
        f" recordings of Azure. {held} recorded exchanges are repeated in tests, and their answers compared; {refused}"
        " more are of kinds that are not supported. `{WS}` is the path of a workspace, `{PROVIDER}` that of AzureML in a subscription. Recorded: status × number of"
        " different exchanges. [The local AzureML](emulator.md#differences-from-azure) explains the comparison."
    )
    sections = []
    for start, title in SECTIONS.items():
        mine = [one for one in operations if _section(one.path) == start]
        if mine:
            sections += [f"## {title}", table(("operation", "meaning", "clients", "recorded"), map(_row, mine))]
    sections += ["## Recorded, and not supported", table(("operation", "recorded"), elsewhere)]
    return page("Operations of the local AzureML", paragraph(intro), *sections)


def emulator_routes() -> Sequence[Route]:
    """Return all routes of the emulator; their handlers are not called."""
    context = SimpleNamespace(clock=lambda: 0.0, identity=SimpleNamespace(workspace=""))
    return App(cast(Any, context), cast(Any, None)).routes


def recorded_facts(root: Path) -> list[Exchange]:
    """Return all recorded exchanges."""
    names = sorted((root / _RECORDED).glob("*.json"))
    return [one for name in names if name.name != "differences.json" for one in read_facts(name)]


def _operation(route: Route, facts: Iterable[Exchange], clients: Mapping[str, Sequence[str]]) -> Operation:
    mine = general(route.method, route.path)
    recorded: dict[int, int] = defaultdict(int)
    for one in facts:
        if general(one.method, one.path) == mine:
            recorded[one.status] += 1
    document = inspect.getdoc(route.handler) or ""
    return Operation(
        method=route.method,
        path=route.path,
        meaning=docstring(document.partition("\n")[0].rstrip(".")),
        clients=tuple(name for name, operations in clients.items() if mine in operations),
        recorded=dict(sorted(recorded.items())),
    )


def _absent(facts: Iterable[Exchange], known: set[str]) -> list[tuple[str, str]]:
    """Return the recorded operations that the emulator does not have."""
    found: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for one in facts:
        if general(one.method, one.path) not in known:
            found[one.operation][one.status] += 1
    return [
        (f"`{name.replace(_PROVIDER, '{PROVIDER}')}`", _statuses(statuses))
        for name, statuses in sorted(found.items())
    ]


def _counts(root: Path) -> tuple[int, int]:
    """Return how many recorded exchanges are repeated in tests, and how many are not."""
    from tests.contracts import recorded

    reasons = recorded.differences()
    cases = [one for family in recorded.FAMILIES for one in recorded.exchanges(family)]
    refused = sum(reasons.refuse(one) is not None for one in cases)
    del root
    return len(cases) - refused, refused


def _row(one: Operation) -> tuple[str, str, str, str]:
    path = one.path.replace(_PROVIDER, "{PROVIDER}")
    return (f"{one.method} `{path}`", one.meaning, ", ".join(one.clients), _statuses(one.recorded))


def _statuses(statuses: Mapping[int, int]) -> str:
    return ", ".join(f"{status} × {count}" for status, count in sorted(statuses.items()))


def _section(path: str) -> str:
    return next(start for start in SECTIONS if path.startswith(start))


def general(method: str, path: str) -> str:
    """Return an operation with its parameters unnamed."""
    return f"{method} {re.sub(r'{(?!WS)[^}]*}', '{}', path)}"
