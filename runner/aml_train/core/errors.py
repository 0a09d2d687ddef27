"""The tree of expected errors: one class for each way that a run can end.

Every class carries the exit code and the status word of the table in docs/architecture.md ("How a run can end").
An expected error is printed as message and remedy, without a traceback; anything else is a fault of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar


class AmlTrainError(Exception):
    """An expected end that is not a success.

    Args:
        message: what went wrong, where and why, in one or a few lines.
        hint: the remedy; what the user can do about it.
    """

    exit_code: int = 1
    status: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One complaint about the user's input: where, what, why and the remedy.

    Attributes:
        where: ``file:line`` (one-based), ``file``, or the name of the option that was given.
        what: what is wrong, naming the key or value.
        why: the rule that it breaks; may be empty where *what* says it all.
        remedy: what to write instead; may be empty.
    """

    where: str
    what: str
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        tail = "; ".join(part for part in (self.why, self.remedy) if part)
        return ": ".join(part for part in (self.where, self.what, tail) if part)


class InvalidError(AmlTrainError):
    """Configuration, arguments, or a combination that is not supported.

    Carries every fault that was found, not only the first.
    """

    exit_code = 2
    status = "invalid"

    def __init__(self, faults: Iterable[Fault] | str, *, hint: str | None = None) -> None:
        if isinstance(faults, str):
            self.faults: tuple[Fault, ...] = ()
            super().__init__(faults, hint=hint)
        else:
            self.faults = tuple(faults)
            super().__init__("\n".join(str(fault) for fault in self.faults), hint=hint)


class Combined:
    """Collects what is invalid in several parts, to raise it as one error."""

    def __init__(self) -> None:
        self._errors: list[InvalidError] = []

    @contextmanager
    def part(self) -> Iterator[None]:
        """Keep the InvalidError of a part, so that the next part is looked at as well."""
        try:
            yield
        except InvalidError as error:
            self._errors.append(error)

    def raise_if_any(self) -> None:
        """Raise one InvalidError with the faults of all parts."""
        if len(self._errors) == 1:
            raise self._errors[0]
        faults = dict[Fault, None]()
        for error in self._errors:
            own = Fault(where="", what=error.message, remedy=error.hint or "")
            faults |= dict.fromkeys(error.faults or [own])
        if faults:
            raise InvalidError(faults)


class RefusedError(InvalidError):
    """The service calls the request invalid: what was submitted has to change."""


class ImageError(AmlTrainError):
    """The image could not be built, pushed, found or verified."""

    exit_code = 3
    status = "image-failed"


class DamagedError(ImageError):
    """The registry lacks a part of what it lists, or has something else there.

    Other errors of a registry are refusals and outages, after which nothing is known.
    """


class DiskError(ImageError):
    """This machine's disk is full, or a temporary folder cannot be written to."""


class TestsFailedError(AmlTrainError):
    """The user's tests failed inside the image, or could not be run there."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    exit_code = 4
    status = "tests-failed"


class JobFailedError(AmlTrainError):
    """The training job ended as Failed."""

    exit_code = 5
    status = "job-failed"


class GateFailedError(AmlTrainError):
    """A threshold was not met, or a metric or a baseline is missing."""

    exit_code = 6
    status = "gate-failed"


class PassportError(AmlTrainError):
    """A passport cannot be issued, or what it states does not hold."""

    exit_code = 9
    status = "not-verified"


class OutdatedError(AmlTrainError):
    """A file of the repository names another image than the tested one."""

    exit_code = 10
    status = "outdated"


class CancelledError(AmlTrainError):
    """The run was cancelled: by a signal, by a cap, or by anybody in the portal."""

    exit_code = 7
    status = "cancelled"


class TimedOutError(AmlTrainError):
    """A time-out of ours ended the run."""

    exit_code = 7
    status = "timed-out"


class ServiceError(AmlTrainError):
    """Sign-in, quota, a missing resource, or an outage longer than our retries.

    *transient* marks what may go away by itself (a lost connection, 429, 5xx): waiting and asking again may help.
    *retry_after* are the seconds to wait before that, where the service named them.
    """

    exit_code = 8
    status = "service-error"

    def __init__(
        self, message: str, *, hint: str | None = None, transient: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.transient = transient
        self.retry_after = retry_after


class NotRespondingError(ServiceError):
    """AzureML lost contact with the job: it ended as NotResponding."""

    status = "not-responding"


class PreemptedError(ServiceError):
    """The job was preempted more often than its retries allow."""

    status = "preempted"


def error_of(status: str, message: str, hint: str | None = None) -> AmlTrainError:
    """Return an error of the class whose status word is *status*."""
    left: list[type[AmlTrainError]] = [AmlTrainError]
    while left:
        cls = left.pop(0)
        if cls.status == status:
            return cls(message, hint=hint)
        left += cls.__subclasses__()
    return AmlTrainError(message, hint=hint)
