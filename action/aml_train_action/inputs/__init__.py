"""The action's inputs, as typed values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train_action.inputs.confidential import for_the_pipeline as for_the_pipeline
    from aml_train_action.inputs.confidential import read_environment as read_environment
    from aml_train_action.inputs.inputs import Inputs as Inputs
    from aml_train_action.inputs.inputs import load_configuration as load_configuration
    from aml_train_action.inputs.inputs import read_inputs as read_inputs
    from aml_train_action.inputs.pulls import PullInputs as PullInputs
    from aml_train_action.inputs.pulls import configuration_name as configuration_name

_MODULES = {
    "for_the_pipeline": "confidential",
    "read_environment": "confidential",
    "Inputs": "inputs",
    "load_configuration": "inputs",
    "read_inputs": "inputs",
    "PullInputs": "pulls",
    "configuration_name": "pulls",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
