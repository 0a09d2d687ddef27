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
    from aml_train.core.threads import CancelToken as CancelToken
    from aml_train.pipeline import RunOptions as RunOptions
    from aml_train.pipeline import RunResult as RunResult
    from aml_train.pipeline.api import Compared as Compared
    from aml_train.pipeline.api import Histories as Histories
    from aml_train.pipeline.api import JobList as JobList
    from aml_train.pipeline.api import Workspace as Workspace
    from aml_train.pipeline.api import attach as attach
    from aml_train.pipeline.api import compare as compare
    from aml_train.pipeline.api import errors as errors
    from aml_train.pipeline.api import events as events
    from aml_train.pipeline.api import load_config as load_config
    from aml_train.pipeline.api import plan as plan
    from aml_train.pipeline.api import promote as promote
    from aml_train.pipeline.api import rollback as rollback
    from aml_train.pipeline.api import run as run

_MODULES = {
    "CancelToken": "core.threads",
    "Compared": "pipeline.api",
    "Histories": "pipeline.api",
    "JobList": "pipeline.api",
    "RunOptions": "pipeline",
    "RunResult": "pipeline",
    "Workspace": "pipeline.api",
    "attach": "pipeline.api",
    "compare": "pipeline.api",
    "errors": "pipeline.api",
    "events": "pipeline.api",
    "load_config": "pipeline.api",
    "plan": "pipeline.api",
    "promote": "pipeline.api",
    "rollback": "pipeline.api",
    "run": "pipeline.api",
}
__all__ = ["__version__", *_MODULES]
__getattr__ = lazily(__name__, _MODULES)
