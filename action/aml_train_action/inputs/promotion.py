"""The inputs of `command: promote` and `command: rollback`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import Fault

COMMANDS: Final = ("promote", "rollback")
#: Inputs that mean nothing to the other commands.
PROMOTION_INPUTS: Final = ("model", "to", "expect", "reason", "dry-run")


@dataclass(frozen=True, kw_only=True)
class PromotionInputs:
    """The model and the stage of a promotion or rollback.

    Attributes:
        model: the model's name; None for the configuration's.
        version: None for the newest candidate that passed its gate. A rollback finds its own.
        to: the stage.
        expect: the version that must be in the stage now, or ``none``; None for any.
        reason: the reason; it is stored with the model.
        dry_run: decide everything, and change nothing.
    """

    model: str | None
    version: str | None
    to: str
    expect: str | None
    reason: str
    dry_run: bool

    def words(self) -> list[str]:
        """Return the equivalent arguments of the command line."""
        named = f"{self.model}:{self.version}" if self.version else self.model
        words = [*([named] if named else []), "--to", self.to]
        for option, value in (("--expect", self.expect), ("--reason", self.reason)):
            words += [option, value] if value else []
        return [*words, "--dry-run" if self.dry_run else "--yes"]


def read_promotion(
    text: Callable[[str], str], *, command: str, dry_run: bool, sets: bool, faults: list[Fault]
) -> PromotionInputs | None:
    """Return the inputs, checked; None for other commands.

    Args:
        text: gives an input by its name.
        command: the command.
        dry_run: the input of that name.
        sets: whether the input ``set`` is given.
        faults: receives the faults.
    """

    def fault(name: str, what: str, remedy: str) -> None:
        faults.append(Fault(where=f"with.{name}", what=what, remedy=remedy))

    if command not in COMMANDS:
        given = [name for name in PROMOTION_INPUTS if (dry_run if name == "dry-run" else text(name))]
        for name in given:
            remedy = "write `command: plan`" if name == "dry-run" else "write `command: promote`, or delete it"
            fault(name, f"`command: {command}` promotes nothing", remedy)
        return None
    name, _, version = text("model").partition(":")
    if version and command == "rollback":
        fault("model", "a rollback finds the version itself", f"write `{name}`, or `command: promote`")
    if version and not name:
        fault("model", f"{text('model')!r} names no model", "write NAME or NAME:VERSION")
    if not text("to"):
        fault("to", f"`command: {command}` needs a stage", "write such as `to: production`")
    if sets:
        why = f"`command: {command}` uses the configuration as it is checked in"
        fault("set", why, "delete it; aml-train.yml has the rules")
    return PromotionInputs(
        model=name or None,
        version=version or None,
        to=text("to"),
        expect=text("expect") or None,
        reason=text("reason"),
        dry_run=dry_run,
    )
