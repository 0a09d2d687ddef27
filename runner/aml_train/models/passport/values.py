"""The result of a verification: claims, and what each of them rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aml_train.config.sections.passport import Requirement

Basis = Literal["recomputed", "signed", "stated", "unknown", "refused"]
"""``recomputed``: looked up or computed again, and as it is stated. ``signed``: a signer that counts says so, and nothing here
can confirm it. ``stated``: written down, and not proved. ``unknown``: it could not be looked up. ``refused``: it does not hold."""

_MARKS: Final[Mapping[Basis, str]] = {
    "recomputed": "✓",
    "signed": "✓",
    "stated": "·",
    "unknown": "?",
    "refused": "✗",
}
#: What each requirement demands: claims, and the basis that meets it. A signature proves nothing of files that were not read.
_DEMANDS: Final[Mapping[Requirement, Mapping[str, Basis]]] = {
    "signature": {"signature": "signed", "manifest": "recomputed"},
    "provenance": {"provenance": "recomputed"},
    "tests": {"tests": "recomputed"},
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a passport; *by* is the signer that was proved."""

    name: str
    basis: Basis
    detail: str
    by: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"claim": self.name, "basis": self.basis, "detail": self.detail}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result for one model version.

    Attributes:
        model: ``NAME:VERSION``.
        claims: every claim.
        signer: who signed, if that was proved; None otherwise.
        statement: the passport's statement; empty without one.
    """

    model: str
    claims: tuple[Claim, ...]
    signer: str | None = None
    statement: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def refused(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in self.claims if claim.basis == "refused")

    def faults(self, require: Sequence[Requirement] = ()) -> tuple[str, ...]:
        """Return why the model is not verified; none if it is.

        Args:
            require: what must be shown, besides that no claim is refused. Any requirement includes the signature, because
                the passport's other claims are compared with what it states.
        """
        found = [f"{claim.name}: {claim.detail}" for claim in self.refused]
        wanted: Sequence[Requirement] = ("signature", *require) if require else ()
        found += [fault for one in dict.fromkeys(wanted) if (fault := self._unmet(one)) is not None]
        return tuple(found)

    def _unmet(self, one: Requirement) -> str | None:
        """Return why a requirement is not met; None if it is, or if its claim is refused."""
        by_name = {claim.name: claim for claim in self.claims}
        for name, basis in _DEMANDS[one].items():
            claim = by_name.get(name)
            if claim is None:
                return f"{one} is required, and nothing is stated of it"
            if claim.basis not in (basis, "refused"):
                what = "is" if name == one else f"the {name} is"
                return f"{one} is required, and {what} only {claim.basis}: {claim.detail}"
        return None

    def lines(self) -> Iterator[str]:
        """Yield the claims as lines, without colours."""
        for claim in self.claims:
            yield f"{_MARKS[claim.basis]} {claim.name:<10} {claim.basis:<10}  {claim.detail}"

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"model": self.model, "signer": self.signer, "claims": [claim.facts() for claim in self.claims]}
