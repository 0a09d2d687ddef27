"""Which clients call which operations of the local AzureML in tests, for docs/emulator-coverage.md.

``clients.json`` is made of recorded runs of the tests: ``python -m tests.contracts.clients RECORD…`` adds the calls that
``serve --record`` wrote down. The tests of each client compare it with their own calls.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aml_emulator.api.routing import Router
from scripts.docs.coverage import emulator_routes, general

FILE: Final = Path(__file__).with_name("clients.json")
AGENTS: Final = {
    "azure-ai-ml": (
        r"azure-ai-ml/|azsdk-python-(azure-mgmt-resource|mgmt-machinelearningservices|arm_ml_service|model_dataplane"
        r"|registry_discovery)/"
    ),
    "azureml-core": r"azureml-sdk-core/|msrest/",
    "mlflow": r"mlflow",
    "azure-identity": r"azsdk-python-identity",
    "aml-train": r"aml-train/",
}
"""Clients by their User-Agent."""


def calls(answers: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the operations that each client called with success, of recorded answers."""
    router = Router(emulator_routes())
    found: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        route = router.find(answer["method"], answer["path"])
        client = client_of(answer.get("client", ""))
        if route is not None and client is not None and answer["status"] < 400:
            found[client].add(general(route[0].method, route[0].path))
    return found


def client_of(agent: str) -> str | None:
    """Return the client of a User-Agent, None for another one."""
    return next((name for name, form in AGENTS.items() if re.search(form, agent, re.IGNORECASE)), None)


def listed() -> dict[str, list[str]]:
    """Return the operations that clients are known to call."""
    if not FILE.exists():
        return {}
    known: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return known


def unlisted(answers: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the calls of recorded answers that ``clients.json`` does not have."""
    known = listed()
    new = {name: sorted(found - set(known.get(name, ()))) for name, found in calls(answers).items()}
    return {name: found for name, found in new.items() if found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Add the calls of files that ``serve --record`` wrote; return the exit code."""
    known = {name: set(found) for name, found in listed().items()}
    for name in sys.argv[1:] if arguments is None else arguments:
        with Path(name).open(encoding="utf-8") as lines:
            for client, found in calls(map(json.loads, lines)).items():
                known.setdefault(client, set()).update(found)
    text = json.dumps({name: sorted(found) for name, found in sorted(known.items())}, indent=1)
    FILE.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
