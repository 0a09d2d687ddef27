"""A tenth of the service's answers fails, and every run comes to its right verdict, with exactly one job and one model.

The suite runs a sample; ``nox -s trust`` runs 500 and 20. The seed decides which request of each rule fails, counted in the order
of their arrival: it repeats the draws, and with several runs at once not which run meets them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from aml_train.core.docker import connect_engine
from tests.integration.pipeline.trust.cases import Case, case, graph_case
from tests.integration.pipeline.trust.suite import add_faults, count_faults, execute, wrong
from tests.support.emulator_process import Emulator, executing_by, running
from tests.support.engine_images import forget

RUNS = int(os.environ.get("AML_TRAIN_TRUST_RUNS", "30"))
GRAPHS = int(os.environ.get("AML_TRAIN_TRUST_GRAPHS", "10"))
CONTAINER_RUNS = int(os.environ.get("AML_TRAIN_TRUST_CONTAINER_RUNS", "4"))
SEED = int(os.environ.get("AML_TRAIN_TRUST_SEED", "1"))
WORKERS = int(os.environ.get("AML_TRAIN_TRUST_WORKERS", "6"))
#: Of the runs in containers: passed, gate missed, job failed and job cancelled come first.
CONTAINER_NUMBERS = (0, 5, 6, 7, *range(8, 24))

#: On a machine under load; `execute` ends what hangs.
pytestmark = [pytest.mark.full, pytest.mark.timeout(4 * 3600)]


@pytest.fixture(scope="module")
def instant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator whose jobs need no containers."""
    with executing_by("tests.support.instant_emulator", tmp_path_factory.mktemp("instant")) as service:
        yield service


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator as it is."""
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service
    client = connect_engine(os.environ)
    forget(client, f"localhost:{service.registry_port}/", f"localhost:{service.registry_tls_port}/")
    client.close()


def judge(
    what: str,
    emulator: Emulator,
    cases: list[Case],
    ended: dict[str, dict[str, Any]],
    counts: tuple[int, int],
    began: float,
) -> None:
    """Fail unless every run ended as it must; say how many did."""
    requests, faults = counts
    problems = wrong(emulator, cases, ended)
    bad = len({line.partition(":")[0] for line in problems})
    sys.stdout.write(
        f"{len(cases) - bad} of {len(cases)} runs {what} right, seed {SEED}: {faults} faults in {requests} requests"
        f" ({faults / requests:.1%}), {time.monotonic() - began:.0f} s\n"
    )
    assert not problems, "\n".join(problems)
    assert faults > 0


def test_every_run_ends_as_it_must(instant: Emulator, tmp_path: Path) -> None:
    cases = [case(number) for number in range(RUNS)]
    add_faults(instant, SEED)
    began = time.monotonic()
    ended = execute(instant, tmp_path, cases, workers=WORKERS)
    counts = count_faults(instant)
    instant.admin("DELETE", "faults")
    judge("on the instant executor", instant, cases, ended, counts, began)


def test_every_pipeline_ends_as_it_must(instant: Emulator, tmp_path: Path) -> None:
    cases = [graph_case(number) for number in range(2000, 2000 + GRAPHS)]
    add_faults(instant, SEED + 1)
    began = time.monotonic()
    ended = execute(instant, tmp_path, cases, workers=WORKERS)
    counts = count_faults(instant)
    instant.admin("DELETE", "faults")
    judge("of pipelines", instant, cases, ended, counts, began)


#: As often as azure-ai-ml sends a request by itself.
LOST = {"kind": "reset", "after": "1", "count": "4"}
NEVER_THERE = {"kind": "reset", "count": "5"}


@pytest.mark.parametrize(("number", "job", "model"), [(900, LOST, NEVER_THERE), (910, NEVER_THERE, LOST)])
def test_whatever_azure_ai_ml_gives_up_is_found_or_made_again(
    instant: Emulator, tmp_path: Path, number: int, job: dict[str, str], model: dict[str, str]
) -> None:
    for path, fault in (("*/jobs/*", job), ("*/models/*/versions/*", model)):
        query = urlencode({**fault, "method": "PUT", "path": path})
        instant.admin("POST", f"faults?{query}").raise_for_status()
    ended = execute(instant, tmp_path, [case(number)], workers=1)
    listed = instant.admin("GET", "faults").json()["faults"]
    instant.admin("DELETE", "faults")
    assert not wrong(instant, [case(number)], ended)
    assert [rule["injected"] for rule in listed] == [int(job["count"]), int(model["count"])]


def test_runs_with_a_tested_image_and_containers_do_too(emulator: Emulator, tmp_path: Path) -> None:
    cases = [case(number) for number in CONTAINER_NUMBERS[:CONTAINER_RUNS]]
    add_faults(emulator, SEED)
    began = time.monotonic()
    ended = execute(emulator, tmp_path / "first", cases[:1], workers=1, containers=True)
    # The others find its image.
    ended |= execute(emulator, tmp_path / "others", cases[1:], workers=3, containers=True)
    counts = count_faults(emulator)
    emulator.admin("DELETE", "faults")
    judge("in containers", emulator, cases, ended, counts, began)
    how = [ended[one.name]["image"] for one in cases]
    assert how == ["built"] + ["found"] * (len(cases) - 1)
