"""From a commit to a gated, registered model on Azure Machine Learning.

The library does what the command line does::

    from aml_train import load_config, run

    run(load_config(), on_event=print).raise_for_status()

Public are the names here, those of the modules ``events`` and ``errors`` and of :mod:`aml_train.testing`, and the attributes and methods
that their documentation names. They follow semantic versioning; docs/python.md has the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily
from aml_train.core.version import __version__

if TYPE_CHECKING:
    from aml_train.api.planning import RunResult as RunResult
    from aml_train.api.planning import attach as attach
    from aml_train.api.planning import load_config as load_config
    from aml_train.api.planning import plan as plan
    from aml_train.api.planning import run as run
    from aml_train.api.stages import Compared as Compared
    from aml_train.api.stages import compare as compare
    from aml_train.api.stages import promote as promote
    from aml_train.api.stages import rollback as rollback
    from aml_train.api.workspace import Histories as Histories
    from aml_train.api.workspace import JobList as JobList
    from aml_train.api.workspace import Workspace as Workspace
    from aml_train.config.model import Config as Config
    from aml_train.core import errors as errors
    from aml_train.core import events as events
    from aml_train.core.threads import CancelToken as CancelToken
    from aml_train.jobs.workspace import JobView as JobView
    from aml_train.jobs.workspace import ModelView as ModelView
    from aml_train.models.download import DownloadedModel as DownloadedModel
    from aml_train.models.promotion.change import Promotion as Promotion
    from aml_train.pipeline.prepare import PreparedRun as PreparedRun
    from aml_train.pipeline.result import RunOptions as RunOptions

_MODULES = {
    "api.planning": ("RunResult", "attach", "load_config", "plan", "run"),
    "api.stages": ("Compared", "compare", "promote", "rollback"),
    "api.workspace": ("Histories", "JobList", "Workspace"),
    "config.model": ("Config",),
    "core.errors": ("errors",),
    "core.events": ("events",),
    "core.threads": ("CancelToken",),
    "jobs.workspace": ("JobView", "ModelView"),
    "models.download": ("DownloadedModel",),
    "models.promotion.change": ("Promotion",),
    "pipeline.prepare": ("PreparedRun",),
    "pipeline.result": ("RunOptions",),
}
__all__ = ["__version__", *(name for names in _MODULES.values() for name in names)]
__getattr__ = lazily(__name__, _MODULES)
