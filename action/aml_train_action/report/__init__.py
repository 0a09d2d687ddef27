"""The report of a run: its record, the outputs and the job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.report.outputs import COMPUTED as COMPUTED
    from aml_train_action.report.outputs import outputs_of as outputs_of
    from aml_train_action.report.record import Record as Record
    from aml_train_action.report.summary import render_summary as render_summary

_MODULES = {
    "COMPUTED": "outputs",
    "outputs_of": "outputs",
    "Record": "record",
    "render_summary": "summary",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
