"""Record a run as a scrubbed bundle, from which its ending can be reproduced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.pipeline.record.recorder import Recorder as Recorder
    from aml_train.pipeline.record.recording import record_run as record_run

_MODULES = {"Recorder": "recorder", "record_run": "recording"}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
