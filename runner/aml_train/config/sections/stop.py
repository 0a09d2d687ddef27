"""``watch.stop``: rules that are looked for while the job runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aml_train.config.job.model import Job
from aml_train.config.section import CheckedTree
from aml_train.config.sections.gate import BaselineConfig, GateRule
from aml_train.config.yaml.shapes import Choice, Duration, Flag, Text
from aml_train.config.yaml.structures import Either, Key, Record, Table
from aml_train.gate.rules import Certainty, StopRule, decidable


def _such_as(noun: str, example: str, pattern: str, convert: Callable[[str], float]) -> Text:
    """Return the shape of a number with its unit."""
    remedy = f"write such as `{example}`"
    return Text(noun=f"{noun} such as `{example}`", pattern=pattern, convert=convert, remedy=remedy)


_STEPS: Final = _such_as("a number of steps", "20 steps", "[1-9][0-9]{0,8} steps?", lambda text: int(text.split()[0]))
_STEP: Final = _such_as("a step", "step 1000", "step [0-9]{1,12}", lambda text: int(text.split()[1]))
_MARGIN: Final = _such_as("a margin", "20 %", r"[0-9]{1,6}(\.[0-9]{1,6})? ?%", lambda text: float(text.rstrip("% ")))
_METRIC: Final = Record(
    noun="a mapping with `nan`, `no-improvement` or `below-baseline`",
    keys={
        "nan": Key(Flag(), "Whether a value that is NaN or infinite is looked for; false by default."),
        "no-improvement": Key(
            _STEPS, "Steps without a better value, such as `20 steps`; a step counts if the metric was logged at it."
        ),
        "below-baseline": Key(
            Record(
                noun="a mapping with `at` and `margin`",
                keys={
                    "at": Key(_STEP, "Step of the comparison, such as `step 1000`.", required=True),
                    "margin": Key(
                        _MARGIN, "By how much the metric may be worse there, such as `20 %`.", required=True
                    ),
                },
            ),
            "Comparison with the curve of the baseline's job at one step.",
        ),
        "direction": Key(
            Choice(words=("up", "down")),
            "Which values are better: `up`, greater ones, or `down`; what the gate's rules on the metric say by default.",
        ),
    },
)
STOP: Final = Record(
    noun="a mapping",
    keys={
        "mode": Key(
            Choice(words=("observe", "cancel")),
            "Effect of a rule that is found: `observe` (the default) reports it, `cancel` cancels the job, and the run is `gate-failed`.",
        ),
        "gate": Key(
            Choice(words=("impossible", "violated")),
            "Rules of the gate that cannot be met any more: `impossible`, whatever the job logs; or `violated`, if no step is logged"
            " twice. Not looked for by default.",
        ),
        "silence": Key(Duration(), "Time without a line in any log and without a metric; not looked for by default."),
        "metrics": Key(
            Table(
                noun="a mapping of metrics to rules",
                key=Text(noun="a metric's name"),
                least=1,
                value=Either(
                    noun="`nan`, or a mapping of rules", scalar=Choice(words=("nan",)), keys=_METRIC, short="nan"
                ),
            ),
            "Rules over single metrics: `nan`, or a mapping.",
        ),
    },
)


@dataclass(frozen=True, kw_only=True)
class StopConfig:
    """``watch.stop``.

    Attributes:
        mode: what becomes of a job on which a rule is found.
        gate: which rules of the gate are looked for; None for none of them.
        of_gate: those that can be decided while the job runs.
        silence: None where it is not looked for.
        metrics: the rules over single metrics.
    """

    mode: Literal["observe", "cancel"] = "observe"
    gate: Certainty | None = None
    of_gate: tuple[GateRule, ...] = ()
    silence: StopRule | None = None
    metrics: tuple[StopRule, ...] = ()

    @property
    def rules(self) -> list[tuple[str, str, str]]:
        """Every rule: its metric, its text and its place."""
        own = [*self.metrics, *([self.silence] if self.silence is not None else [])]
        of_gate = [(one.metric, one.rule.text, one.where) for one in self.of_gate]
        return of_gate + [(one.metric, one.text, one.where) for one in own]


def stop_config(
    checked: CheckedTree, gate: Sequence[GateRule], baseline: BaselineConfig | None, job: Job
) -> StopConfig | None:
    """Make ``watch.stop``; None without the key. A rule that could never be found is a fault.

    Args:
        checked: the file.
        gate: the rules of the gate.
        baseline: what is compared with.
        job: only the metrics and logs of a command job are its own.
    """
    given = checked.section("watch").get("stop")
    if not isinstance(given, dict):
        return None
    at, keys = checked.within("watch", "stop"), ("watch", "stop")
    other = "`replicates`" if checked.has("replicates") else "" if job.kind == "command" else f"a {job.kind} job"
    if other:
        why = "it looks at the logs and metrics of a single job"
        checked.fault(f"`watch.stop` does not go with {other}", *keys, why=why, remedy="delete the key")
    certainty: Certainty | None = given.get("gate")
    of_gate = tuple(
        one
        for one in gate
        if certainty is not None and one.source is None and decidable(one.rule, one.policies, certainty)
    )
    if certainty is not None and not of_gate:
        why = "it decides `finite`, upper bounds of `count` and `steps`, and `violated` also others over all steps"
        what = f"`watch.stop.gate: {certainty}` can decide no rule of the gate before the job's end"
        at.fault(what, "gate", why=why, remedy="delete the line, or add such a rule")
    silence = None
    if (seconds := given.get("silence")) is not None:
        where, text = at.mark("silence").where, f"silence {seconds:g} s"
        silence = StopRule(metric="job", kind="silence", text=text, where=where, number=seconds)
    metrics = [
        rule
        for metric, rules in given.get("metrics", {}).items()
        for rule in _of_metric(at.within("metrics"), metric, rules, gate, baseline)
    ]
    if not given.keys() - {"mode"}:
        checked.fault("`watch.stop` has no rule", *keys, remedy="write `gate`, `silence` or `metrics`")
    mode = given.get("mode", "observe")
    return StopConfig(mode=mode, gate=certainty, of_gate=of_gate, silence=silence, metrics=tuple(metrics))


def _of_metric(
    at: CheckedTree,
    metric: str,
    rules: Mapping[str, Any],
    gate: Sequence[GateRule],
    baseline: BaselineConfig | None,
) -> Iterator[StopRule]:
    """Yield the rules over one metric."""
    if rules.get("nan"):
        yield StopRule(metric=metric, kind="nan", text="nan", where=at.mark(metric, "nan").where)
    directed = [key for key in ("no-improvement", "below-baseline") if key in rules]
    if not (directed or rules.get("nan")):
        remedy = "write `nan`, or a mapping with `no-improvement` or `below-baseline`"
        at.fault(f"`watch.stop.metrics.{metric}` has no rule", metric, remedy=remedy)
    if not directed:
        return
    meant = {"up": [True], "down": [False]}.get(rules.get("direction", ""), sorted(_directions(gate, metric)))
    if len(meant) != 1:
        what = f"`watch.stop.metrics.{metric}` does not say which values are better"
        why = f"the gate's rules on it say {'both' if meant else 'nothing'}"
        at.fault(what, metric, directed[0], why=why, remedy="add `direction: up` or `direction: down`")
        return
    goals = tuple(
        one.rule for one in gate if one.metric == metric and one.rule.limit is not None and one.source is None
    )
    directed_rule = functools.partial(StopRule, metric=metric, greater=meant[0], goals=goals)
    if steps := rules.get("no-improvement"):
        where = at.mark(metric, "no-improvement").where
        yield directed_rule(kind="no-improvement", text=f"no-improvement {steps} steps", where=where, number=steps)
    if place := rules.get("below-baseline"):
        if baseline is None or baseline.file is not None:
            why = "there is no `baseline`" if baseline is None else "a file of metrics has no curves"
            remedy = "name a job, a model or a branch: `baseline: {branch: main}`"
            at.fault(f"`watch.stop.metrics.{metric}` has no curve to compare with", metric, why=why, remedy=remedy)
        step, margin, where = place["at"], place["margin"], at.mark(metric, "below-baseline").where
        text = f"below-baseline at step {step} by {margin:g} %"
        yield directed_rule(kind="below-baseline", text=text, where=where, number=step, margin=margin)


def _directions(gate: Sequence[GateRule], metric: str) -> set[bool]:
    """Return whether greater values of a metric are better, as the gate's rules on it say; both, or neither, where they do not."""
    rules = [one.rule for one in gate if one.metric == metric and one.rule.aggregate.name not in ("count", "steps")]
    shapes = {rule.shape == "increasing" for rule in rules if rule.shape not in (None, "finite")}
    return shapes | {rule.greater for rule in rules if rule.shape is None and rule.operator != "=="}
