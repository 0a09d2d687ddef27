"""The pipeline: from a commit to a gated, registered model on Azure Machine Learning."""

__all__ = ["__version__"]

__version__ = "0.1.0"
