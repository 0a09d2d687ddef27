"""No false green over graphs: states of nodes, reuse, allowed failures and metrics, with verdicts by plain rules.

Each case is a pipeline that AzureML says something of, and nodes that may say something else. The product's code is not used
for the verdict: :func:`verdict` says in plain Python what a person means. ``AML_TRAIN_GRAPHS`` sets the number of cases.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from aml_train.config.job.model import JobNode
from aml_train.config.sections.gate import GateRule
from aml_train.config.sections.model import ModelConfig
from aml_train.config.sections.watch import WatchConfig
from aml_train.core.tags import Tag
from aml_train.gate.rules import parse_rule
from aml_train.jobs.composed import ChildView, Objective
from aml_train.jobs.spec import JobTemplate, NodesImage
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.plan import PlannedImage
from tests.support.memory_graphs import GraphService
from tests.unit.pipeline.test_run import DIGEST, OURS, SPEC, image_named, make_plan, run

S = JobStatus
CASES: Final = int(os.environ.get("AML_TRAIN_GRAPHS", "300"))
OTHER: Final = f"sha256:{'e' * 64}"
SIDE: Final = image_named("side").digest
#: Which digest `image` and the image `side` had in an earlier pipeline, and in which of them the node ran there.
EARLIER: Final = (
    (DIGEST, SIDE, ""),
    (DIGEST, SIDE, "side"),
    (DIGEST, None, ""),
    (OTHER, SIDE, ""),
    (OTHER, SIDE, "side"),
    (DIGEST, OTHER, "side"),
    (SIDE, DIGEST, ""),
    (SIDE, DIGEST, "side"),
)
STATES: Final = (S.COMPLETED,) * 12 + (S.FAILED, S.CANCELED, S.NOT_RESPONDING, S.RUNNING, None)


@dataclass(frozen=True)
class Part:
    """One node: its state (None: no run), its image, what it was reused from, and what it logged of ``acc``.

    The image is ``""`` for `image`, ``side``, or None for an environment that is given.
    """

    name: str
    state: JobStatus | None
    image: str | None
    allowed: bool
    reused: tuple[str, str | None, str] | Literal["unknown"] | None
    values: tuple[float, ...]


@dataclass(frozen=True)
class Case:
    parts: tuple[Part, ...]
    status: JobStatus
    rule: str
    model: str


def make_case(seed: int) -> Case:
    pick = random.Random(seed)  # noqa: S311 - cases, no secrets
    parts = []
    for number in range(pick.randint(1, 5)):
        state = pick.choice(STATES)
        parts.append(
            Part(
                name=f"n{number}",
                state=state,
                image="" if number == 0 else pick.choice(("", "", "side", "side", None)),
                allowed=pick.random() < 0.2,
                reused=pick.choice((None,) * 12 + EARLIER + ("unknown",)) if state is S.COMPLETED else None,
                values=pick.choice(((), (0.95,), (0.95,), (0.5, 0.95), (0.95, 0.5))),
            )
        )
    names = [part.name for part in parts]
    rule = pick.choice(("acc", *(f"{name}/acc" for name in names), f"{names[0]}/acc"))
    status = pick.choice((S.COMPLETED, S.COMPLETED, S.COMPLETED, S.FAILED, S.CANCELED))
    return Case(parts=tuple(parts), status=status, rule=rule, model=pick.choice(names))


def verdict(case: Case) -> int:
    """Return the exit code that a person would give."""
    if case.status is S.CANCELED:
        return 7
    bad = [part for part in case.parts if part.state is not S.COMPLETED]
    if any(not part.allowed for part in bad):
        return 5
    if case.status is S.FAILED and not any(part.state is not None for part in bad):
        return 5  # AzureML says that it failed, and no node explains why
    for part in case.parts:
        if part.image is None or part.reused is None:
            continue
        if part.reused == "unknown":
            return 5
        primary, side, where = part.reused
        if {"": primary, "side": side}[where] != {"": DIGEST, "side": SIDE}[part.image]:
            return 5
    logged = {part.name: part.values[-1] for part in case.parts if part.state is S.COMPLETED and part.values}
    node, _, _ = case.rule.rpartition("/")
    alone = next(iter(logged.values())) if len(logged) == 1 else None
    value = logged.get(node) if node else alone
    if value is None or value < 0.9:
        return 6
    return 0 if next(part for part in case.parts if part.name == case.model).state is S.COMPLETED else 5


def service_of(case: Case) -> GraphService:
    children, logged, roots, earlier = [], {}, {}, {}
    for part in case.parts:
        if part.state is None:
            continue
        run_of = f"run-{part.name}"
        reused = None if part.reused is None else f"before-{part.name}"
        children.append(ChildView(name=run_of, node=part.name, status=part.state, reused_from=reused))
        logged[reused or run_of] = {"acc": part.values}
        if reused is not None and part.reused is not None and part.reused != "unknown":
            roots[reused] = f"root-{part.name}"
            primary, side, where = part.reused
            tags = {Tag.DIGEST: primary}
            if side is not None:
                nodes = [part.name] if where == "side" else []
                tags[f"{Tag.IMAGES}side"] = json.dumps({"image": f"r.io/x@{side}", "tested": None, "nodes": nodes})
            earlier[f"root-{part.name}"] = JobView(name=f"root-{part.name}", status=S.COMPLETED, tags=tags)
    return GraphService(
        script=(S.QUEUED, S.RUNNING, case.status),
        parts={"": children},
        logged_to=logged,
        roots=roots,
        jobs=earlier,
    )


def plan_of(case: Case):  # type: ignore[no-untyped-def]
    nodes = tuple(
        JobNode(
            name=part.name,
            kind="command",
            place=("jobs", part.name),
            environment="azureml:given:1" if part.image is None else None,
            where="p:1",
        )
        for part in case.parts
    )
    template = JobTemplate(
        document={"type": "pipeline", "jobs": {part.name: {"command": "x"} for part in case.parts}},
        directory=Path("/p"),
        code_digest=None,
        scope="local",
        stem="graph",
        places=tuple(node.place for node, part in zip(nodes, case.parts, strict=True) if part.image == ""),
        nodes=nodes,
    )
    aside = tuple(node for node, part in zip(nodes, case.parts, strict=True) if part.image == "side")
    images = (OURS, PlannedImage(spec=replace(SPEC, name="side"), tests=None, nodes=aside)) if aside else (OURS,)
    if aside:
        template = replace(template, images=(NodesImage(name="side", nodes=aside),))
    rule = GateRule(metric=case.rule, rule=parse_rule(">= 0.9"), where="aml-train.yml:9")
    return make_plan(
        job=template,
        images=images,
        gate=(rule,),
        model=ModelConfig(name="m", path="outputs/m", type="custom_model", node=case.model),
        watch=WatchConfig(allow_failed=tuple(part.name for part in case.parts if part.allowed)),
    )


def test_a_pipeline_passes_only_if_a_person_would_let_it() -> None:
    seen: Counter[int] = Counter()
    for seed in range(CASES):
        case = make_case(seed)
        service = service_of(case)
        outcome, _ = run(plan_of(case), service)
        expected = verdict(case)
        assert outcome.exit_code == expected, f"seed {seed}: {case}: {outcome.message}"
        assert len(service.registered) == (expected == 0), f"seed {seed}"
        if expected == 0:
            (model,) = service.registered
            part = next(part for part in case.parts if part.name == case.model)
            wrote = f"run-{part.name}" if part.reused is None else f"before-{part.name}"
            assert model.path.startswith(f"azureml://jobs/{wrote}/"), model.path
            assert model.tags["aml-train.node"] == case.model
        seen[expected] += 1
    assert min(seen[code] for code in (0, 5, 6, 7)) > CASES / 50, seen


@dataclass(frozen=True)
class Trials:
    values: Sequence[tuple[JobStatus, tuple[float, ...]]]
    maximize: bool
    reported: int | None
    status: JobStatus


def make_trials(seed: int) -> Trials:
    pick = random.Random(seed)  # noqa: S311 - cases, no secrets
    values = [
        (
            pick.choice((S.COMPLETED, S.COMPLETED, S.COMPLETED, S.CANCELED, S.FAILED)),
            tuple(pick.choice((0.5, 0.7, 0.9, 0.95, float("nan"))) for _ in range(pick.randint(0, 3))),
        )
        for _ in range(pick.randint(0, 5))
    ]
    reported = pick.choice((None, *range(len(values))))
    return Trials(
        values=values,
        maximize=pick.random() < 0.7,
        reported=reported,
        status=pick.choice((S.COMPLETED,) * 4 + (S.FAILED,)),
    )


def best_of(trials: Trials) -> tuple[int, float] | None:
    found = []
    for number, (state, values) in enumerate(trials.values):
        known = [value for value in values if value == value]
        if state is S.COMPLETED and known:
            found.append(((max if trials.maximize else min)(known), number))
    if not found:
        return None
    wanted = (max if trials.maximize else min)(value for value, _ in found)
    return next(number for value, number in found if value == wanted), wanted


def sweep_verdict(trials: Trials) -> int:
    if trials.status is S.FAILED or not any(state is S.COMPLETED for state, _ in trials.values):
        return 5
    best = best_of(trials)
    if best is None:
        return 6  # no trial logged the metric that the rule names
    if trials.reported is not None:
        state, values = trials.values[trials.reported]
        known = [value for value in values if value == value]
        its = (max if trials.maximize else min)(known) if state is S.COMPLETED and known else None
        if its != best[1]:
            return 6
    last = trials.values[best[0]][1][-1]
    completed = sum(state is S.COMPLETED for state, _ in trials.values)
    failed = sum(state is S.FAILED for state, _ in trials.values)
    return 0 if last == last and last >= 0.7 and completed >= 2 and failed <= 1 else 6


def test_a_sweep_passes_only_if_its_best_trial_does() -> None:
    seen: Counter[int] = Counter()
    for seed in range(CASES):
        trials = make_trials(seed)
        children = [ChildView(name=f"t{n}", node=f"t{n}", status=state) for n, (state, _) in enumerate(trials.values)]
        service = GraphService(
            kind="sweep",
            script=(S.QUEUED, S.RUNNING, trials.status),
            parts={"": children},
            logged_to={f"t{n}": {"score": values} for n, (_, values) in enumerate(trials.values)},
            objective=Objective(metric="score", maximize=trials.maximize),
            reported_best=None if trials.reported is None else f"t{trials.reported}",
        )
        trial = JobNode(name="", kind="sweep", place=("trial",), where="p:1")
        template = JobTemplate(
            document={"type": "sweep", "trial": {"command": "x"}},
            directory=Path("/p"),
            code_digest=None,
            scope="local",
            stem="sweep",
            places=(("trial",),),
            nodes=(trial,),
        )
        rules = {"score": [">= 0.7"], "trials": [">= 2"], "failed-trials": ["<= 1"]}
        plan = replace(make_plan(rules), job=template)
        outcome, _ = run(plan, service)
        expected = sweep_verdict(trials)
        assert outcome.exit_code == expected, f"seed {seed}: {trials}: {outcome.message}"
        assert len(service.registered) == (expected == 0), f"seed {seed}"
        if expected == 0:
            best = best_of(trials)
            assert best is not None
            assert service.registered[0].path.startswith(f"azureml://jobs/t{best[0]}/")
        seen[expected] += 1
    assert min(seen[code] for code in (0, 5, 6)) > CASES / 50, seen
