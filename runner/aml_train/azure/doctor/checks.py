"""The checks of a workspace in Azure, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from aml_train.azure.clouds import cloud_named
from aml_train.azure.credentials import Assertion
from aml_train.azure.doctor.identity import check_sign_in, check_subject, check_subscription
from aml_train.azure.doctor.network import check_clock, check_hosts, check_workspace_hosts
from aml_train.azure.doctor.probe import Probe, Wanted
from aml_train.azure.doctor.registry import check_pull, check_registry, check_registry_role, check_storage
from aml_train.azure.doctor.workspace import check_compute, check_quota, check_workspace, check_workspace_role
from aml_train.azure.sign_in import Fetched
from aml_train.core.diagnosis import Check

#: az and azd may take a minute for a token, the sign-in in Azure several attempts.
_SIGN_IN_SECONDS: Final = 90.0


def azure_checks(
    wanted: Wanted, *, environ: Mapping[str, str], assertion: Assertion | None, fetched: Fetched
) -> tuple[Check, ...]:
    """Return the checks of a workspace; each reads and changes nothing.

    Args:
        wanted: what the configuration wants there.
        environ: the process's environment, which chooses the sign-in and the cloud.
        assertion: fetches federated assertions; None if the caller cannot.
        fetched: receives each token.

    Raises:
        InvalidError: there is no such cloud.
    """
    cloud = cloud_named(environ.get("AZURE_ENVIRONMENT", ""))
    probe = Probe(wanted, cloud, environ=environ, assertion=assertion, fetched=fetched)
    return (
        Check(name="network", run=partial(check_hosts, probe)),
        Check(name="clock", run=partial(check_clock, probe)),
        Check(name="oidc-subject", run=partial(check_subject, probe), needs=("network",)),
        Check(name="sign-in", run=partial(check_sign_in, probe), needs=("network",), seconds=_SIGN_IN_SECONDS),
        Check(name="subscription", run=partial(check_subscription, probe), needs=("sign-in",)),
        Check(name="workspace", run=partial(check_workspace, probe), needs=("subscription",)),
        Check(name="workspace-role", run=partial(check_workspace_role, probe), needs=("workspace",)),
        Check(name="compute", run=partial(check_compute, probe), needs=("workspace",)),
        Check(name="quota", run=partial(check_quota, probe), needs=("compute",)),
        Check(name="registry", run=partial(check_registry, probe), needs=("workspace",)),
        Check(name="registry-role", run=partial(check_registry_role, probe), needs=("registry",)),
        Check(name="registry-pull", run=partial(check_pull, probe), needs=("registry",)),
        Check(name="storage", run=partial(check_storage, probe), needs=("workspace",)),
        Check(name="workspace-network", run=partial(check_workspace_hosts, probe), needs=("workspace",)),
    )
