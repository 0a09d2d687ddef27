"""The report of a run: its record, the outputs and the job summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.report.files import NAME as NAME
    from aml_train_action.report.files import report_path as report_path
    from aml_train_action.report.files import write_report as write_report
    from aml_train_action.report.made import Origin as Origin
    from aml_train_action.report.made import encode_within as encode_within
    from aml_train_action.report.made import report_of as report_of
    from aml_train_action.report.markdown import sections_of as sections_of
    from aml_train_action.report.markup import literal as literal
    from aml_train_action.report.markup import message as message
    from aml_train_action.report.markup import own_link as own_link
    from aml_train_action.report.outputs import COMPUTED as COMPUTED
    from aml_train_action.report.outputs import outputs_of as outputs_of
    from aml_train_action.report.record import Record as Record
    from aml_train_action.report.sections import Section as Section
    from aml_train_action.report.sections import fit as fit
    from aml_train_action.report.sections import left_out as left_out
    from aml_train_action.report.summary import render_summary as render_summary

_MODULES = {
    "NAME": "files",
    "report_path": "files",
    "write_report": "files",
    "Origin": "made",
    "encode_within": "made",
    "report_of": "made",
    "sections_of": "markdown",
    "literal": "markup",
    "message": "markup",
    "own_link": "markup",
    "COMPUTED": "outputs",
    "outputs_of": "outputs",
    "Record": "record",
    "Section": "sections",
    "fit": "sections",
    "left_out": "sections",
    "render_summary": "summary",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
