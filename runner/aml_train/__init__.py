"""From a commit to a gated, registered model on Azure Machine Learning.

The library does what the command line does::

    from aml_train import load_config, plan, run

    for event in (running := run(plan(load_config()))):
        print(event.name)
    running.result().raise_for_status()

Public are the names here, those of :mod:`aml_train.events`, :mod:`aml_train.errors` and :mod:`aml_train.testing`, and the attributes
and methods that their documentation names. They follow semantic versioning; docs/python.md has the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily
from aml_train.core.version import __version__

if TYPE_CHECKING:
    from aml_train.api import Compared as Compared
    from aml_train.api import Histories as Histories
    from aml_train.api import JobList as JobList
    from aml_train.api import Run as Run
    from aml_train.api import Workspace as Workspace
    from aml_train.api import attach as attach
    from aml_train.api import compare as compare
    from aml_train.api import load_config as load_config
    from aml_train.api import plan as plan
    from aml_train.api import promote as promote
    from aml_train.api import rollback as rollback
    from aml_train.api import run as run
    from aml_train.pipeline import RunOptions as RunOptions
    from aml_train.pipeline import RunResult as RunResult

_MODULES = {
    "Compared": "api",
    "Histories": "api",
    "JobList": "api",
    "Run": "api",
    "RunOptions": "pipeline",
    "RunResult": "pipeline",
    "Workspace": "api",
    "attach": "api",
    "compare": "api",
    "load_config": "api",
    "plan": "api",
    "promote": "api",
    "rollback": "api",
    "run": "api",
}
__all__ = ["__version__", *_MODULES]
__getattr__ = lazily(__name__, _MODULES)
