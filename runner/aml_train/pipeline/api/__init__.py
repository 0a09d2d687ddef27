"""The library: what ``import aml_train`` offers, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.pipeline.api import errors as errors
    from aml_train.pipeline.api import events as events
    from aml_train.pipeline.api.backend import Backend as Backend
    from aml_train.pipeline.api.planning import attach as attach
    from aml_train.pipeline.api.planning import load_config as load_config
    from aml_train.pipeline.api.planning import plan as plan
    from aml_train.pipeline.api.planning import run as run
    from aml_train.pipeline.api.stages import Compared as Compared
    from aml_train.pipeline.api.stages import compare as compare
    from aml_train.pipeline.api.stages import promote as promote
    from aml_train.pipeline.api.stages import promotion_request as promotion_request
    from aml_train.pipeline.api.stages import rollback as rollback
    from aml_train.pipeline.api.workspace import Histories as Histories
    from aml_train.pipeline.api.workspace import JobList as JobList
    from aml_train.pipeline.api.workspace import Workspace as Workspace

_MODULES = {
    "errors": "",
    "events": "",
    "Backend": "backend",
    "attach": "planning",
    "load_config": "planning",
    "plan": "planning",
    "run": "planning",
    "Compared": "stages",
    "compare": "stages",
    "promote": "stages",
    "promotion_request": "stages",
    "rollback": "stages",
    "Histories": "workspace",
    "JobList": "workspace",
    "Workspace": "workspace",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
