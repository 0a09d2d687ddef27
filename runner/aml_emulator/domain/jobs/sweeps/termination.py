"""When a trial of a sweep ends early. Pure.

Policies are those of https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters#early-termination. A trial is
compared when it has logged the primary metric as often as an interval says, and not before a delay.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError

_KINDS: Final = ("bandit", "medianstopping", "truncationselection")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A policy of early termination.

    Attributes:
        kind: in small letters.
        interval: after how many values trials are compared.
        delay: how many values come before the first comparison.
        slack_factor, slack_amount: how far below the best a trial may be; of ``bandit``.
        percentage: how many of the trials end at each comparison; of ``truncationselection``.
    """

    kind: str
    interval: int
    delay: int
    slack_factor: float = 0.0
    slack_amount: float = 0.0
    percentage: int = 0

    def ended(self, histories: Mapping[str, Sequence[float]], active: Sequence[str], *, maximize: bool) -> list[str]:
        """Return the active trials that are to end.

        Args:
            histories: the values of the primary metric of each trial, in their order.
            active: the trials that run.
            maximize: whether higher values are better.
        """
        signs = 1.0 if maximize else -1.0
        signed = {name: [signs * value for value in values] for name, values in histories.items()}
        return [name for name in active if self._loses(name, signed)]

    def _loses(self, name: str, signed: Mapping[str, Sequence[float]]) -> bool:
        own = signed.get(name) or ()
        count = len(own) // self.interval * self.interval
        if count == 0 or count < self.delay:
            return False
        # Others are compared as far as this one has come.
        others = {other: values[:count] for other, values in signed.items() if len(values) >= count}
        best = max(own[:count])
        if self.kind == "bandit":
            leader = max(max(values) for values in others.values())
            if self.slack_amount > 0:
                return best + self.slack_amount < leader
            # The documented bound is best/(1 + f), and best·(1 + f) of values that are minimized.
            return best < (leader / (1 + self.slack_factor) if leader > 0 else leader * (1 + self.slack_factor))
        if self.kind == "medianstopping":
            means = [statistics.fmean(values) for values in others.values()]
            return best < statistics.median(means)
        ranked = sorted(others, key=lambda other: max(others[other]))
        return name in ranked[: len(ranked) * self.percentage // 100]


def read_policy(job: Mapping[str, Any]) -> Policy | None:
    """Return the policy of a sweep job's properties, None if it has none.

    Raises:
        NotSupportedError: a policy, by its type.
        InvalidError: values that make no sense.
    """
    given = job.get("earlyTermination") or {}
    if not given:
        return None
    kind = str(given.get("policyType") or "").lower()
    if kind not in _KINDS:
        raise NotSupportedError(f"earlyTermination of type '{given.get('policyType')}'")
    policy = Policy(
        kind=kind,
        interval=int(given.get("evaluationInterval") or 1),
        delay=int(given.get("delayEvaluation") or 0),
        slack_factor=float(given.get("slackFactor") or 0.0),
        slack_amount=float(given.get("slackAmount") or 0.0),
        percentage=int(given.get("truncationPercentage") or 0),
    )
    if policy.interval < 1 or policy.delay < 0 or policy.slack_factor < 0 or policy.slack_amount < 0:
        raise InvalidError("earlyTermination has a number that is too small.")
    if kind == "truncationselection" and not 1 <= policy.percentage <= 99:
        raise InvalidError("earlyTermination.truncationPercentage is a number from 1 to 99.")
    return policy
