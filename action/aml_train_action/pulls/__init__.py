"""The pull request: a report as comment and check, and commands in comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.pulls.artifact import list_reports as list_reports
    from aml_train_action.pulls.artifact import load_report as load_report
    from aml_train_action.pulls.decision import decide as decide
    from aml_train_action.pulls.find import Found as Found
    from aml_train_action.pulls.find import find_own as find_own
    from aml_train_action.pulls.find import find_triggering as find_triggering
    from aml_train_action.pulls.grammar import Command as Command
    from aml_train_action.pulls.grammar import Refusal as Refusal
    from aml_train_action.pulls.grammar import parse as parse
    from aml_train_action.pulls.marker import key_of as key_of
    from aml_train_action.pulls.posting import post_check as post_check
    from aml_train_action.pulls.posting import post_comment as post_comment
    from aml_train_action.pulls.scene import Comment as Comment
    from aml_train_action.pulls.scene import read_comment as read_comment
    from aml_train_action.pulls.scene import read_scene as read_scene
    from aml_train_action.pulls.scene import why_unprotected as why_unprotected

_MODULES = {
    "list_reports": "artifact",
    "load_report": "artifact",
    "decide": "decision",
    "Found": "find",
    "find_own": "find",
    "find_triggering": "find",
    "Command": "grammar",
    "Refusal": "grammar",
    "parse": "grammar",
    "key_of": "marker",
    "post_check": "posting",
    "post_comment": "posting",
    "Comment": "scene",
    "read_comment": "scene",
    "read_scene": "scene",
    "why_unprotected": "scene",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
