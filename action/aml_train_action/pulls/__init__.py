"""The pull request: a report as its comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.pulls.artifact import list_reports as list_reports
    from aml_train_action.pulls.artifact import load_report as load_report
    from aml_train_action.pulls.find import Found as Found
    from aml_train_action.pulls.find import find_own as find_own
    from aml_train_action.pulls.find import find_triggering as find_triggering
    from aml_train_action.pulls.marker import key_of as key_of
    from aml_train_action.pulls.posting import post_comment as post_comment

_MODULES = {
    "list_reports": "artifact",
    "load_report": "artifact",
    "Found": "find",
    "find_own": "find",
    "find_triggering": "find",
    "key_of": "marker",
    "post_comment": "posting",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
