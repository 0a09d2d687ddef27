"""The pipeline: from a commit to a gated, registered model on Azure Machine Learning."""

from aml_train._version import __version__

__all__ = ["__version__"]
