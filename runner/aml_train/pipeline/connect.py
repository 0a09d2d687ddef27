"""From a target's name to its data: signed in, by a way of its own, so that two targets can be had at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aml_train.azure import AzureRest, DataWorkspace, HttpWay, Workspace, cloud_named, sign_in_to_azure, workspace_of
from aml_train.config import TargetConfig, Targets
from aml_train.core.events import Listener

_LOCAL: Final = "local"


class DataTargets:
    """The targets of one command; each is signed in to once, when it is needed.

    Args:
        targets: of the configuration.
        default: the target of addresses that name none; None for the configuration's choice.
        environment: the process's environment. The local AzureML changes nothing in it.
        listener: told what is started.
    """

    def __init__(
        self, targets: Targets, default: str | None, *, environment: Mapping[str, str], listener: Listener
    ) -> None:
        self._targets = targets
        self._default = default
        self._environment = environment
        self._listener = listener
        self._opened: dict[str, DataWorkspace] = {}

    def workspace(self, name: str | None) -> DataWorkspace:
        """Return the data of the target *name*; None is the default one.

        Raises:
            InvalidError: there is no such target, or its workspace is not said.
            ServiceError: the local AzureML does not start, or there is nothing to sign in with.
        """
        target = self._targets.named(name or self._default)
        if target.name not in self._opened:
            self._opened[target.name] = (
                self._local(target) if target.kind == _LOCAL else self._azure(target, self._targets.directory)
            )
        return self._opened[target.name]

    def _local(self, target: TargetConfig) -> DataWorkspace:
        from aml_train.local import EmulatorSettings, client_environment, info, start

        settings = EmulatorSettings.from_environment(self._environment)
        found = info(settings) or start(settings, self._listener)
        variables = client_environment(found, self._environment)
        way = HttpWay(proxy=variables["HTTPS_PROXY"], ca_bundle=variables["REQUESTS_CA_BUNDLE"])
        credential = sign_in_to_azure({**variables, "AML_TRAIN_SIGN_IN": "secret"}, options=way.azure_options())
        place = Workspace(
            subscription_id=found.subscription_id, resource_group=found.resource_group, name=found.workspace
        )
        return workspace_of(AzureRest(place, credential, session=way.session()), credential, way, target.name)

    def _azure(self, target: TargetConfig, directory: Path) -> DataWorkspace:
        from aml_train.azure import find_workspace

        place = find_workspace(target, directory, self._environment)
        cloud = cloud_named(self._environment.get("AZURE_ENVIRONMENT", ""))
        credential = sign_in_to_azure(self._environment, cloud=cloud)
        return workspace_of(AzureRest(place, credential, cloud), credential, HttpWay(), target.name)
