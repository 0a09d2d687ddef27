"""A running emulator as the place of a recording: names, sign-in and the way, without the process's environment."""

from __future__ import annotations

from aml_train.azure import HttpWay, WorkspaceId, sign_in_to_azure
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.parity.recording import RecordedPlace
from tests.support.emulator_process import Emulator


def place_of(emulator: Emulator, *, compute: str | None = None) -> RecordedPlace:
    """Return the emulator's own workspace; *compute* is its cluster by default."""
    environment, info = emulator.environment(), emulator.info
    way = HttpWay(proxy=environment["HTTPS_PROXY"], ca_bundle=environment["REQUESTS_CA_BUNDLE"])
    known = {name: environment[name] for name in environment if name.startswith("AZURE_")}
    return RecordedPlace(
        workspace=WorkspaceId(
            subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
        ),
        sign_in=sign_in_to_azure(known, options=way.azure_options()),
        cloud=AZURE_PUBLIC,
        compute=compute or info["compute"],
        way=way,
        tenant=environment["AZURE_TENANT_ID"],
    )
