"""The SDK that submits a job: azureml-core (v1) or azure-ai-ml (v2).

v1 is for run configurations, v2 for all else.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Final, Literal

from aml_train.config.model import Config
from aml_train.core.errors import InvalidError

INSTALL: Final = "pip install 'aml-train[azure-v1]'"


def installed_v1() -> str | None:
    """Return azureml-core's version without importing it; None if not installed."""
    try:
        if importlib.util.find_spec("azureml.core") is None:
            return None
    except ModuleNotFoundError:
        return None
    # Only those who installed the extra wait for this import.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("azureml-core")
    except PackageNotFoundError:
        return "of an unknown version"


def with_sdk(config: Config) -> Config:
    """Return *config* with the SDK that submits its job.

    A choice that the configuration does not make is explained by a notice.

    azureml-core is looked for only if it matters: for a run configuration without ``sdk: v2``.

    Raises:
        InvalidError: ``sdk: v1`` is configured, and azureml-core is not installed.
    """
    if config.sdk == "v2" or (config.sdk is None and config.job.runconfig is None):
        return replace(config, sdk="v2")
    version = installed_v1()
    if config.sdk == "v1":
        if version is None:
            hint = f"{INSTALL}; or write `sdk: v2`: the command job that does the same is submitted."
            raise InvalidError("`sdk: v1` needs azureml-core, which is not installed.", hint=hint)
        return config
    sdk, notice = chosen(config, version)
    return replace(config, sdk=sdk, notices=(*config.notices, notice))


def chosen(config: Config, version: str | None) -> tuple[Literal["v1", "v2"], str]:
    """Return the SDK for a run configuration that names none, and the reason. Pure.

    Args:
        config: what the user said.
        version: azureml-core's; None where it is not installed.
    """
    same = "the command job that does the same as the run configuration"
    if config.data:
        return "v2", f"The SDK v2 submits {same}: the SDK v1 cannot bring the `data` of aml-train.yml."
    if config.model is not None and config.model.output is not None:
        return (
            "v2",
            f"The SDK v2 submits {same}: runs of the SDK v1 have no outputs with names, as `model.output` is.",
        )
    if version is None:
        reason = "azureml-core is not installed, which would submit it by default"
        return "v2", f"The SDK v2 submits {same}: {reason} ({INSTALL}). `sdk: v2` says that this is meant."
    reason = "because it is a run configuration"
    return "v1", f"The SDK v1, azureml-core {version}, submits the run, {reason}; `sdk: v2` has {same} submitted."
