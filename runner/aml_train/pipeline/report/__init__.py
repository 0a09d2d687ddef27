"""The report of a run, which people read: its values, and their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.pipeline.report.collect import collect_report as collect_report
    from aml_train.pipeline.report.collect import open_report as open_report
    from aml_train.pipeline.report.convert import ReportSources as ReportSources
    from aml_train.pipeline.report.html import MOST_HTML as MOST_HTML
    from aml_train.pipeline.report.html import render_html as render_html
    from aml_train.pipeline.report.markdown import MOST_MARKDOWN as MOST_MARKDOWN
    from aml_train.pipeline.report.markdown import render_markdown as render_markdown
    from aml_train.pipeline.report.pieces import block as block
    from aml_train.pipeline.report.pieces import chart as chart
    from aml_train.pipeline.report.pieces import code as code
    from aml_train.pipeline.report.pieces import escape as escape
    from aml_train.pipeline.report.pieces import flowchart as flowchart
    from aml_train.pipeline.report.pieces import label as label
    from aml_train.pipeline.report.pieces import link as link
    from aml_train.pipeline.report.pieces import logged_tables as logged_tables
    from aml_train.pipeline.report.tidying import tidy as tidy
    from aml_train.pipeline.report.values import MOST_BYTES as MOST_BYTES
    from aml_train.pipeline.report.values import Attempt as Attempt
    from aml_train.pipeline.report.values import Baseline as Baseline
    from aml_train.pipeline.report.values import Check as Check
    from aml_train.pipeline.report.values import Cost as Cost
    from aml_train.pipeline.report.values import Curve as Curve
    from aml_train.pipeline.report.values import Difference as Difference
    from aml_train.pipeline.report.values import Failure as Failure
    from aml_train.pipeline.report.values import Image as Image
    from aml_train.pipeline.report.values import Job as Job
    from aml_train.pipeline.report.values import Log as Log
    from aml_train.pipeline.report.values import Missing as Missing
    from aml_train.pipeline.report.values import Model as Model
    from aml_train.pipeline.report.values import Node as Node
    from aml_train.pipeline.report.values import Package as Package
    from aml_train.pipeline.report.values import PackageChange as PackageChange
    from aml_train.pipeline.report.values import Part as Part
    from aml_train.pipeline.report.values import Picture as Picture
    from aml_train.pipeline.report.values import Report as Report
    from aml_train.pipeline.report.values import Rule as Rule
    from aml_train.pipeline.report.values import Series as Series
    from aml_train.pipeline.report.values import Source as Source
    from aml_train.pipeline.report.values import Stage as Stage
    from aml_train.pipeline.report.values import Step as Step
    from aml_train.pipeline.report.values import Table as Table
    from aml_train.pipeline.report.values import Tests as Tests
    from aml_train.pipeline.report.values import Trial as Trial
    from aml_train.pipeline.report.values import as_name as as_name
    from aml_train.pipeline.report.values import as_text as as_text
    from aml_train.pipeline.report.values import decode as decode
    from aml_train.pipeline.report.values import encode as encode
    from aml_train.pipeline.report.values import fitted as fitted
    from aml_train.pipeline.report.values import number as number
    from aml_train.pipeline.report.values import schema as schema
    from aml_train.pipeline.report.values import thin as thin

_MODULES = {
    "ReportSources": "convert",
    "collect_report": "collect",
    "open_report": "collect",
    "Attempt": "values",
    "Baseline": "values",
    "Check": "values",
    "Cost": "values",
    "Curve": "values",
    "Difference": "values",
    "Failure": "values",
    "Image": "values",
    "Job": "values",
    "Log": "values",
    "MOST_BYTES": "values",
    "MOST_HTML": "html",
    "MOST_MARKDOWN": "markdown",
    "Missing": "values",
    "Model": "values",
    "Node": "values",
    "Package": "values",
    "PackageChange": "values",
    "Part": "values",
    "Picture": "values",
    "Report": "values",
    "Rule": "values",
    "Series": "values",
    "Source": "values",
    "Stage": "values",
    "Step": "values",
    "Table": "values",
    "Tests": "values",
    "Trial": "values",
    "as_name": "values",
    "as_text": "values",
    "block": "pieces",
    "chart": "pieces",
    "code": "pieces",
    "decode": "values",
    "encode": "values",
    "escape": "pieces",
    "fitted": "values",
    "flowchart": "pieces",
    "label": "pieces",
    "link": "pieces",
    "logged_tables": "pieces",
    "number": "values",
    "render_html": "html",
    "render_markdown": "markdown",
    "schema": "values",
    "thin": "values",
    "tidy": "tidying",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
