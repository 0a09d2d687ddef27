"""The ``sitecustomize`` that every Python of a job finds first, by its PYTHONPATH.

It is copied into the job as ``sitecustomize.py``.

It loads what sends azureml-core's metrics at the end, and then the ``sitecustomize`` that the interpreter would have loaded without it.
"""

import importlib.machinery
import importlib.util
import os
import sys

import aml_run_flush  # type: ignore[import-not-found]  # noqa: F401 - next to this file in the job

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _load_next() -> None:
    """Load the ``sitecustomize`` of the image or the job, without a trace in the path."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_load_next()
