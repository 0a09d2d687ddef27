"""``replicates:``: the values of an input that the job is run with, one job for each."""

from __future__ import annotations

from typing import Any, Final, Literal

from aml_train.config.job.model import Job
from aml_train.config.section import CheckedTree, key, make, record, section
from aml_train.config.sections.gate import GateRule
from aml_train.config.yaml.shapes import Choice, Number, Text
from aml_train.config.yaml.shapes import Literal as LiteralValue
from aml_train.config.yaml.structures import Items
from aml_train.gate.rules import Sampling

MOST: Final = 50
"""Replicates of a job: the property that names them has room for these."""


@section
class ReplicatesConfig:
    """``replicates:``; *where* is ``file:line``."""

    input: str = key(Text(noun="the name of an input of the job, such as `seed`"), "Input in which the jobs differ.")
    values: tuple[Any, ...] = key(
        Items(item=LiteralValue(), noun="a list of at least two values", least=1),
        "Values of the input, a job for each; the job of the first value is registered as the model.",
    )
    stop: Literal["end", "early"] = key(
        Choice(words=("end", "early")),
        "When the gate decides: at the `end` of all jobs (the default), or `early`, as soon as the first of them decide it; the others"
        " are cancelled.",
        default="end",
    )
    alpha: float = key(
        Number(noun="a number above 0, at most 0.5", whole=False, minimum=0.000_001, maximum=0.5),
        "Greatest probability that rules with `baseline` pass a model that is no better than their limit; 0.05 by default.",
        default=0.05,
    )
    where: str = ""

    @property
    def sampling(self) -> Sampling:
        """How the replicates are judged."""
        return Sampling(planned=len(self.values), alpha=self.alpha, early=self.stop == "early")

    def label(self, place: int) -> str:
        """Return which replicate is at *place*: ``seed = 3``."""
        return f"{self.input} = {self.values[place]}"


REPLICATES: Final = record(ReplicatesConfig, noun="a mapping with `input` and `values`")


def replicates_config(checked: CheckedTree, job: Job | None, rules: tuple[GateRule, ...]) -> ReplicatesConfig | None:
    """Make ``replicates``; None if there is none. Rules over replicates need it."""
    found = checked.values.get("replicates")
    if not isinstance(found, dict):
        over = next((rule for rule in rules if rule.rule.over is not None), None)
        if over is not None and not checked.has("replicates"):
            what = f"the rule `{over.rule.text}` is over replicates, and there are no `replicates`"
            remedy = "add them: `replicates: {input: seed, values: [1, 2, 3, 4, 5]}`"
            checked.fault(what, "gate", over.metric, remedy=remedy)
        return None
    name, values = found.get("input"), found.get("values") or []
    if len({str(one) for one in values}) < len(values):
        checked.fault("`replicates.values` has a value twice", "replicates", "values", why="the same work is one job")
    if values and not 2 <= len(values) <= MOST:
        what = f"`replicates.values` has {len(values)} value{'s' * (len(values) > 1)}"
        checked.fault(what, "replicates", "values", remedy=f"give 2 to {MOST}, or delete `replicates`")
    if job is None or name is None:
        return None
    inputs = job.document.get("inputs") or {}
    if job.kind != "command" or job.runconfig is not None:
        kind = "run configuration" if job.runconfig is not None else f"{job.kind} job"
        checked.fault(f"`replicates` does not go with a {kind}", "replicates", remedy="name a command job")
    elif name not in inputs:
        known = ", ".join(f"`{one}`" for one in inputs) or "none"
        checked.fault(f"`replicates.input` is `{name}`", "replicates", "input", why=f"the job's inputs are {known}")
    elif isinstance(inputs[name], dict):
        why = "it reads data, and replicates differ in a literal value"
        checked.fault(f"`replicates.input` is `{name}`", "replicates", "input", why=why)
    return make(ReplicatesConfig, found, values=tuple(values), where=checked.place("replicates").where)
