"""The rule over data: candidate and baseline should be measured on the same. Pure."""

from __future__ import annotations

from typing import Final

from aml_train.core.comparison import Comparison, Side
from aml_train.gate.decide import RuleDecision, Verdict
from aml_train.gate.rules import DataPolicy, Rule

#: What the rule is called where metrics have their names.
DATA: Final = "data"
RULE: Final = Rule(text="as the baseline's")
_SHOWN: Final = 4


def is_data_rule(rule: Rule) -> bool:
    """Return whether *rule* is the one over data, which no configuration writes."""
    return rule.text == RULE.text


def decide_data(
    candidate: Side, baseline: Side | None, why: str, policy: DataPolicy, where: str, *, bootstrap: bool = False
) -> RuleDecision | None:
    """Decide whether the candidate has read the baseline's data.

    Data are compared by input: by the version of an asset, by the contents of local files, else by the place; and by the
    identity of their contents where both sides have one. With ``warn``, no decision is made without data or without a baseline.

    Args:
        candidate: the job that is judged.
        baseline: what it is compared with; None where there is none.
        why: why there is none.
        policy: what different data do.
        where: ``file:line`` of the baseline.
        bootstrap: whether there need be no baseline.

    Returns:
        the decision; None where none is made.
    """
    if policy == "ignore":
        return None
    strict = policy == "fail"
    if baseline is None:
        if not strict:
            return None
        return _decision("skipped" if bootstrap else "missed", f"there are no data to compare with ({why})", where)
    bad: Verdict = "missed" if strict else "warned"
    compared = Comparison(left=candidate, right=baseline)
    different = compared.different_data
    if different is None:
        unknown = candidate.title if candidate.data is None else baseline.title
        if not strict and not candidate.data and not baseline.data:
            return None
        return _decision(bad, f"it is not known which data {unknown} has read", where)
    left = candidate.data or {}
    if different:
        said = [_differs(name, compared) for name in different[:_SHOWN]]
        more = [f"and {len(different) - _SHOWN} more inputs"] if len(different) > _SHOWN else []
        return _decision(bad, f"the data differ from those of {baseline.title}: {'; '.join([*said, *more])}", where)
    if not left:
        return _decision("met", f"neither this job nor {baseline.title} reads data", where) if strict else None
    known = candidate.contents.keys() & baseline.contents.keys()
    places = [name for name, value in left.items() if "://" in value and name not in known]
    remark = f" ({', '.join(places)}: the same place, whose contents are not known)" if places else ""
    same = ", ".join(f"{name} is {value}" for name, value in list(left.items())[:_SHOWN])
    return _decision("met", f"the data are those of {baseline.title}: {same}{remark}", where)


def _differs(name: str, compared: Comparison) -> str:
    left, right = compared.left.data or {}, compared.right.data or {}
    if compared.other_contents(name) and left.get(name) == right.get(name):
        then, now = compared.right.contents[name], compared.left.contents[name]
        return f"{name} is {left[name]}, whose contents were others ({now}, and {then} there)"
    if name not in right:
        return f"{name} is {left[name]}, which the baseline does not read"
    if name not in left:
        return f"{name}, which is {right[name]} there, is not read"
    return f"{name} is {left[name]}, and was {right[name]}"


def _decision(verdict: Verdict, reason: str, where: str) -> RuleDecision:
    return RuleDecision(metric=DATA, rule=RULE, where=where, value=None, limit=None, verdict=verdict, reason=reason)
