"""GitHub's contract: workflow commands, files, log, annotations, OIDC, REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.github.annotations import Annotations as Annotations
    from aml_train_action.github.annotations import Places as Places
    from aml_train_action.github.api import Api as Api
    from aml_train_action.github.api import NotFoundError as NotFoundError
    from aml_train_action.github.api import open_api as open_api
    from aml_train_action.github.commands import Level as Level
    from aml_train_action.github.commands import annotation as annotation
    from aml_train_action.github.commands import command as command
    from aml_train_action.github.files import State as State
    from aml_train_action.github.files import abandoned_job as abandoned_job
    from aml_train_action.github.files import append as append
    from aml_train_action.github.files import was_killed as was_killed
    from aml_train_action.github.files import write_outputs as write_outputs
    from aml_train_action.github.log import Channel as Channel
    from aml_train_action.github.log import ChannelText as ChannelText
    from aml_train_action.github.log import GitHubLog as GitHubLog
    from aml_train_action.github.log import LogLevel as LogLevel
    from aml_train_action.github.oidc import github_assertion as github_assertion
    from aml_train_action.github.payload import read_payload as read_payload
    from aml_train_action.github.proposals import Checkout as Checkout
    from aml_train_action.github.proposals import Event as Event
    from aml_train_action.github.proposals import branch_of as branch_of
    from aml_train_action.github.proposals import read_checkout as read_checkout
    from aml_train_action.github.proposals import trust_of as trust_of
    from aml_train_action.github.proposals import why_proposed as why_proposed
    from aml_train_action.github.step import Step as Step
    from aml_train_action.github.step import read_step as read_step

_MODULES = {
    "Annotations": "annotations",
    "Places": "annotations",
    "Api": "api",
    "NotFoundError": "api",
    "open_api": "api",
    "Level": "commands",
    "annotation": "commands",
    "command": "commands",
    "State": "files",
    "abandoned_job": "files",
    "append": "files",
    "was_killed": "files",
    "write_outputs": "files",
    "Channel": "log",
    "ChannelText": "log",
    "GitHubLog": "log",
    "LogLevel": "log",
    "github_assertion": "oidc",
    "read_payload": "payload",
    "Checkout": "proposals",
    "Event": "proposals",
    "branch_of": "proposals",
    "read_checkout": "proposals",
    "trust_of": "proposals",
    "why_proposed": "proposals",
    "Step": "step",
    "read_step": "step",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
