"""Compare the facts of a passport with the present ones. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.models.passport.observe import PAPERS, Fact, Unknown
from aml_train.models.passport.values import Basis, Claim

_MOST_SHOWN: Final = 80
#: Facts that the workflow stated when it submitted the job: nothing but the job's tags has them.
_STATED: Final = ("source", "workflow")
#: Members of a passport that are verified elsewhere, and when it was issued.
_ELSEWHERE: Final = ("gate", "issued")


def compare_facts(stated: Answer, present: Mapping[str, Fact], weak: Basis) -> Iterator[Claim]:
    """Yield a claim for each fact.

    Args:
        stated: the predicate of a passport.
        present: the facts as they are now.
        weak: the basis of what nothing can confirm: ``signed``, or ``stated`` without a proved signature.
    """
    for name, fact in present.items():
        given = stated.mapping(name) if stated.has(name) else None
        if name in PAPERS:
            yield _paper(name, given, fact)
        elif isinstance(fact, Unknown):
            yield _unknown(name, given, fact, weak)
        elif different := _difference(given, fact):
            fault = [str(fact["fault"])] if fact and "fault" in fact else []
            yield Claim(name=name, basis="refused", detail="; ".join([*fault, different]))
        elif name in _STATED:
            yield Claim(name=name, basis=weak, detail=_shown(given))
        else:
            yield _equal(name, given, fact)
    for name in stated.mapping().keys() - {*present, *_ELSEWHERE}:
        yield Claim(name=name, basis=weak, detail="this version of aml-train cannot look it up")


def _unknown(name: str, given: Mapping[str, Any] | None, fact: Unknown, weak: Basis) -> Claim:
    """Return the claim of a fact that was looked up in part, or not at all."""
    if different := _difference({key: (given or {}).get(key) for key in fact.known}, fact.known):
        return Claim(name=name, basis="refused", detail=different)
    basis: Basis = weak if given is not None else "unknown"
    return Claim(name=name, basis=basis, detail=f"it cannot be looked up: {fact.reason}")


def _equal(name: str, given: Mapping[str, Any] | None, fact: Fact) -> Claim:
    """Return the claim of an unchanged fact; some must also hold by themselves."""
    if not given:
        return Claim(name=name, basis="stated", detail="there is none")
    judge = _FAULTS.get(name)
    if judge is not None and (fault := judge(given)) is not None:
        return Claim(name=name, basis="refused", detail=fault)
    return Claim(name=name, basis="recomputed", detail=_shown(given))


def _paper(name: str, given: Mapping[str, Any] | None, fact: Fact) -> Claim:
    """Compare the one paper that a passport names with all that the image has."""
    if given is None:
        return Claim(name=name, basis="stated", detail="the passport states none")
    if isinstance(fact, Unknown):
        basis: Basis = "refused" if fact.damaged else "unknown"
        return Claim(name=name, basis=basis, detail=f"it cannot be looked up: {fact.reason}")
    found = (fact or {}).get(str(given.get("manifest")))
    if found is None:
        detail = f"the image has no {name} {str(given.get('manifest'))[:19]} any more"
    elif "fault" in found:
        detail = str(found["fault"])
    elif different := _difference({key: given.get(key) for key in found}, found):
        detail = different
    else:
        return Claim(name=name, basis="recomputed", detail=f"{given.get('manifest')}")
    return Claim(name=name, basis="refused", detail=detail)


def _fault_of_image(fact: Mapping[str, Any]) -> str | None:
    if "fault" in fact:
        return str(fact["fault"])
    digest = fact.get("digest")
    if not digest:
        return "the registry did not have the image when the passport was issued"
    if not str(fact.get("environment")).endswith(f"@{digest}"):
        return f"the job's environment is {fact.get('environment')}, and not {digest}"
    if fact.get("kept") not in (None, digest):
        return f"the tag of the image leads to {fact.get('kept')}"
    return None


def _fault_of_tests(fact: Mapping[str, Any]) -> str | None:
    return str(fact["fault"]) if "fault" in fact else None


_FAULTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str | None]]] = {
    "image": _fault_of_image,
    "tests": _fault_of_tests,
}


def _difference(given: Mapping[str, Any] | None, fact: Mapping[str, Any] | None) -> str:
    """Return in words what of a fact changed; empty if nothing did."""
    before, now = dict(given or {}), dict(fact or {})
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    words = [f"{key} was {_value(before.get(key))}, and is {_value(now.get(key))}" for key in changed[:4]]
    more = [f"and {len(changed) - 4} more"] if len(changed) > 4 else []
    return "; ".join([*words, *more])


def _value(value: object) -> str:
    text = "missing" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _shown(given: Mapping[str, Any] | None) -> str:
    known = {key: value for key, value in (given or {}).items() if value is not None}
    words = ", ".join(f"{key} {_value(value)}" for key, value in list(known.items())[:4])
    return words + (f" and {len(known) - 4} more" if len(known) > 4 else "")
