"""Errors of the domain, in Azure's words and without HTTP."""

from __future__ import annotations

from collections.abc import Mapping


class DomainError(Exception):
    """Something that the domain refuses; each kind of refusal is a class below it.

    Args:
        message: what is wrong, for the user of the client.
        code: Azure's word for the cause.
        reasons: the chain of narrower codes that AzureML nests, outermost first; by default its class's.
        details: narrower errors, each with code and message.
    """

    reasons: tuple[str, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        code: str = "UserError",
        reasons: tuple[str, ...] | None = None,
        details: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = details
        if reasons is not None:
            self.reasons = reasons


class NotFoundError(DomainError):
    """An asset, a run or another thing that does not exist.

    Args:
        what: what it is, as the user would name it.
        message: the service's own words for it, if they are known.
        reasons: as `DomainError`.
        details: narrower errors, each with code and message.
    """

    reasons = ("NotFoundError",)

    def __init__(
        self,
        what: str,
        *,
        message: str | None = None,
        reasons: tuple[str, ...] | None = None,
        details: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        super().__init__(message or f"Not found: {what}", reasons=reasons, details=details)


class InvalidError(DomainError):
    """A request that the user has to change."""

    reasons = ("BadArgument",)


class ConflictError(DomainError):
    """A request that contradicts what is stored."""

    reasons = ("Conflict",)


class NotSupportedError(DomainError):
    """Something that AzureML can do and this emulator cannot: logged and counted.

    Args:
        what: the operation, field or value, as the user would name it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The local AzureML does not support {what}. See docs/emulator.md for what it does.",
            code="NotImplemented",
        )
        self.what = what
