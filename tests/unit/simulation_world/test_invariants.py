"""Each invariant fails on a world that was doctored, and holds in the one before."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from simulation.world import invariants
from simulation.world.builder import Tried
from simulation.world.ends import Ended
from simulation.world.invariants import ENDINGS, INVARIANTS, Invariant, swept, violations
from simulation.world.oracle import holds
from simulation.world.project import MODEL, Project, Rule
from simulation.world.truth import TrueJob, TrueModel, Truth
from simulation.world.world import Acknowledged

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
PROJECT = Project(key="p")
JOB = TrueJob(
    name="p-0123456789ab-1",
    status="Completed",
    created=100.0,
    ended=200.0,
    tags={"aml-train.image-digest": DIGEST, "aml-train.branch": "main"},
    document={"command": PROJECT.command},
    image=f"amllocal.azurecr.io/p@{DIGEST}",
    code="c0de",
    executed=1,
)
MODEL_1 = TrueModel(
    name=MODEL,
    version="1",
    created=210.0,
    tags={"aml-train.job": JOB.name, "aml-train.image-digest": DIGEST, "aml-train.stage": "production"},
    path="azureml://",
)
PASSED = Ended(
    client="one",
    command="run",
    project="p",
    exit_code=0,
    status="passed",
    message="The job completed.",
    began=90.0,
    ended=220.0,
    facts={"job": JOB.name, "model": MODEL, "model_version": "1"},
)
CHANGE = {"id": "c1", "stage": "production", "version": "1", "action": "promote"}
PROMOTED = replace(PASSED, client="two", command="promote", status="promoted", facts={"change": "c1"})
LEASED = "candidate-0123456789ab.1.1.host.4000.abc"
TRUE = Truth(
    jobs={JOB.name: JOB},
    models=(MODEL_1,),
    projects={"p": PROJECT},
    tags={"p": {"addr": DIGEST}, "p-candidate": {LEASED: DIGEST}},
    manifests={"p": frozenset({DIGEST}), "p-candidate": frozenset({DIGEST})},
    blobs={("store", "name"): b"content"},
    promotions={MODEL: {"pending": None, "history": [CHANGE]}},
    tried=(Tried(digest=DIGEST, key="k", project="p", passed=True),),
    journal=(
        Acknowledged(kind="job", key=(JOB.name,)),
        Acknowledged(kind="model", key=(MODEL, "1")),
        Acknowledged(kind="tags", key=(JOB.name, "aml-train.branch"), value="main"),
        Acknowledged(kind="manifest", key=("p", "addr"), value=DIGEST),
        Acknowledged(kind="blob", key=("store", "name"), value="mgNkuembtIDdJeHwKEyFVQ=="),
    ),
    ends=(PASSED, PROMOTED),
    secrets={"planted: PASSWORD": "distinctive-secret"},
    sinks={"console of one": "nothing of it"},
)
LIVE = replace(JOB, status="Running", ended=None)
INTERRUPTED = replace(PASSED, exit_code=7, status="cancelled", interrupted=True, message="Interrupted.")
SECOND = replace(JOB, name="p-0123456789ab-2", created=150.0)


FIRST = Project(key="first", metrics={"accuracy": (0.99,)})
BETTER = replace(JOB, name="p-aaaaaaaaaaaa-1", created=1.0, ended=50.0, document={"command": FIRST.command}, code="f")
COMPARED = replace(PROJECT, baseline="branch", rules=(Rule(metric="accuracy", limit=0.02, baseline=True),))
FIRST_PASSED = replace(PASSED, client="first", project="first", began=1.0, ended=60.0, facts={"job": BETTER.name})
WITH_BASELINE = replace(
    TRUE,
    jobs={JOB.name: JOB, BETTER.name: BETTER},
    projects={"p": COMPARED, "first": FIRST},
    ends=(FIRST_PASSED, PASSED),
    tried=(*TRUE.tried, Tried(digest=DIGEST, key="f", project="first", passed=True)),
)


def with_job(job: TrueJob) -> Truth:
    return replace(TRUE, jobs={job.name: job})


DOCTORED: list[tuple[str, Invariant, Truth, str]] = [
    ("no job", invariants.no_false_green, replace(TRUE, jobs={}), "which does not exist"),
    ("job failed", invariants.no_false_green, with_job(replace(JOB, status="Failed")), "which is Failed"),
    ("untested", invariants.no_false_green, replace(TRUE, tried=()), "none of its tests have passed"),
    ("a tag as image", invariants.no_false_green, with_job(replace(JOB, image="p:latest")), "without a digest"),
    (
        "gate",
        invariants.no_false_green,
        replace(TRUE, projects={"p": replace(PROJECT, rules=(Rule(metric="accuracy", limit=0.99),))}),
        "does not meet: accuracy last >= 0.99",
    ),
    ("baseline", invariants.no_false_green, WITH_BASELINE, r"accuracy last >= baseline - 0\.02"),
    ("two at once", invariants.one_paid_job, replace(TRUE, jobs={JOB.name: JOB, SECOND.name: SECOND}), "was live"),
    (
        "two versions",
        invariants.one_model_per_work,
        replace(TRUE, models=(MODEL_1, replace(MODEL_1, version="2"))),
        "has 2 model versions",
    ),
    (
        "two in a stage",
        invariants.one_winner,
        replace(TRUE, models=(MODEL_1, replace(MODEL_1, version="2"))),
        "holds 1, 2",
    ),
    (
        "left pending",
        invariants.one_winner,
        replace(TRUE, promotions={MODEL: {"pending": CHANGE, "history": []}}),
        "is pending, and no command failed",
    ),
    (
        "candidate without lease",
        invariants.no_orphan,
        replace(TRUE, tags={"p-candidate": {"candidate-1": DIGEST}}),
        "no owner and no lease",
    ),
    ("container", invariants.no_orphan, replace(TRUE, containers=("one",)), "a container of one is left"),
    (
        "job after an interrupt",
        invariants.no_orphan,
        replace(with_job(LIVE), ends=(INTERRUPTED,)),
        "every run that followed it was interrupted",
    ),
    ("unknown status", invariants.known_endings, replace(TRUE, ends=(replace(PASSED, status="fine"),)), "no row"),
    ("lost job", invariants.nothing_lost, replace(TRUE, jobs={}), "the job .* is not there"),
    ("moved tag", invariants.nothing_lost, replace(TRUE, tags={"p": {"addr": OTHER}}), "is another one"),
    ("other blob", invariants.nothing_lost, replace(TRUE, blobs={("store", "name"): b"x"}), "other contents"),
    (
        "secret",
        invariants.no_secret,
        replace(TRUE, sinks={"console of one": "it is distinctive-secret."}),
        r"console of one shows a secret \(planted: PASSWORD\)",
    ),
    ("candidates after a clean-up", swept, TRUE, "still has 1 tags"),
]


def test_the_true_world_violates_nothing() -> None:
    assert violations(TRUE) == []


@pytest.mark.parametrize(
    ("invariant", "truth", "words"), [one[1:] for one in DOCTORED], ids=[one[0] for one in DOCTORED]
)
def test_an_invariant_fails_on_a_doctored_world(invariant: Invariant, truth: Truth, words: str) -> None:
    found = list(invariant(truth))
    assert any(re.search(words, text) for text in found), found


def test_every_invariant_has_a_doctored_world() -> None:
    assert {one.__name__ for _, one, _, _ in DOCTORED} == {*INVARIANTS, "swept"}


def test_the_table_of_endings_is_that_of_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs/states.md").read_text(encoding="utf-8")
    table = text.partition("## How a run can end")[2].partition("\nEach is a class")[0]
    found: dict[int, set[str]] = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].isdecimal():
            found.setdefault(int(cells[1]), set()).update(re.findall(r"`([a-z-]+)`", cells[2]))
    assert found == {code: set(words) for code, words in ENDINGS.items()}


@pytest.mark.parametrize(
    ("rule", "values", "baseline", "wanted"),
    [
        (Rule(metric="a", limit=0.5), [0.6, 0.4], None, False),
        (Rule(metric="a", aggregate="max", limit=0.5), [0.6, 0.4], None, True),
        (Rule(metric="a", aggregate="min", operator="<=", limit=0.3), [0.2, 0.4], None, True),
        (Rule(metric="a", limit=0.5), [float("nan")], None, False),
        (Rule(metric="a", limit=0.1, baseline=True), [0.4], [0.5], True),
        (Rule(metric="a", limit=0.1, baseline=True), [0.3], [0.5], False),
        (Rule(metric="a", limit=0.1, baseline=True), [0.3], None, False),
    ],
)
def test_the_oracle(rule: Rule, values: list[float], baseline: list[float] | None, wanted: bool) -> None:
    side = None if baseline is None else {"a": baseline}
    assert holds(rule, {"a": values}, side) is wanted
