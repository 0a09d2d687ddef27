"""The configuration that the inputs lead to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aml_train.core.errors import InvalidError
from aml_train_action.inputs.run import Inputs

if TYPE_CHECKING:
    from aml_train.config import Config


def load(inputs: Inputs) -> tuple[Config, tuple[str, ...]]:
    """Load the configuration, changed as the inputs say.

    Returns:
        the configuration, and the changes of its target that inputs have led to, as ``key=value``.

    Raises:
        InvalidError: with every fault; those in the value of an input under the input's name.
    """
    config = _load(inputs)
    target = config.target.name
    # Who writes `target: local` may do so for pull requests alone, beside inputs for the other events.
    azure = inputs.azure.without_workspace() if inputs.target == "local" else inputs.azure
    changes = azure.changes(target)
    return (_load(inputs, *changes) if changes else config), changes


def _load(inputs: Inputs, *changes: str) -> Config:
    from aml_train.config import load_config

    named = {
        f"--set {key}": f"with.{key.rpartition('.')[2]}" for key, _, _ in (one.partition("=") for one in changes)
    }
    try:
        return load_config(
            inputs.config,
            directory=inputs.directory,
            job=inputs.job,
            target=inputs.target,
            sets=(*inputs.sets, *changes),
        )
    except InvalidError as error:
        faults = [replace(fault, where=named.get(fault.where, fault.where)) for fault in error.faults]
        raise InvalidError(faults or error.message, hint=error.hint) from None
