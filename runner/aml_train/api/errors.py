"""The errors that the library raises: one class for each way to end.

Each has ``message``, ``hint``, and the ``status`` word and ``exit_code`` of the command line.
"""

from __future__ import annotations

from aml_train.core.errors import (
    AmlTrainError,
    CancelledError,
    GateFailedError,
    ImageError,
    InvalidError,
    JobFailedError,
    NotRespondingError,
    OutdatedError,
    PassportError,
    PreemptedError,
    ServiceError,
    TestsFailedError,
    TimedOutError,
)

__all__ = [
    "AmlTrainError",
    "CancelledError",
    "GateFailedError",
    "ImageError",
    "InvalidError",
    "JobFailedError",
    "NotRespondingError",
    "OutdatedError",
    "PassportError",
    "PreemptedError",
    "ServiceError",
    "TestsFailedError",
    "TimedOutError",
]
