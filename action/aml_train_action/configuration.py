"""The configuration that the inputs lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aml_train.errors import InvalidError
from aml_train_action.inputs import Inputs
from aml_train_action.masking import identifier, named_secret

if TYPE_CHECKING:
    from aml_train.config.model import Config


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


def secrets_in(config: Config) -> Iterator[str]:
    """Yield the values of variables in *config*, of the job, the image and the tests, whose names say that they are secret.

    References of AzureML (``${{…}}``) are none.
    """
    written: Sequence[Mapping[str, object]] = (
        config.job.document.get("environment_variables") or {},
        config.image.env if config.image else {},
        config.tests.env if config.tests else {},
    )
    for variables in written:
        for name, value in variables.items():
            if named_secret(name) and not identifier(name) and "${{" not in str(value):
                yield str(value)


def _load(inputs: Inputs, *changes: str) -> Config:
    from aml_train.config.load import load_config

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
