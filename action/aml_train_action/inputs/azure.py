"""The inputs for the sign-in to Azure and the workspace. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train.azure.clouds import cloud_named
from aml_train.core.errors import Fault, InvalidError
from aml_train_action.inputs.confidential import for_the_pipeline

#: Input → the variable of the pipeline.
_VARIABLES: Final = {
    "client-id": "AZURE_CLIENT_ID",
    "tenant-id": "AZURE_TENANT_ID",
    "subscription-id": "AZURE_SUBSCRIPTION_ID",
    "client-secret": "AZURE_CLIENT_SECRET",
    "creds": "AZURE_CREDENTIALS",
    "environment": "AZURE_ENVIRONMENT",
}
#: Inputs that replace the key of the same name of a target.
_KEYS: Final = ("subscription-id", "resource-group", "workspace", "registry", "compute")
#: Those without a meaning for the local AzureML. A subscription may be given for the sign-in.
_AZURE_ONLY: Final = ("resource-group", "workspace", "registry")
_CREDS: Final = ("clientId", "clientSecret", "tenantId")
_WAY: Final = "AML_TRAIN_SIGN_IN"


@dataclass(frozen=True, kw_only=True)
class AzureInputs:
    """The inputs about Azure; None for those that are not given.

    Attributes:
        client_id, tenant_id, subscription_id: the identity and its subscription.
        client_secret, creds: a service principal's secret, plain or in azure/login's JSON.
        environment: name of the cloud.
        resource_group, workspace, registry, compute: win over the target's configuration.
    """

    client_id: str | None = None
    tenant_id: str | None = None
    subscription_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    creds: str | None = field(default=None, repr=False)
    environment: str | None = None
    resource_group: str | None = None
    workspace: str | None = None
    registry: str | None = None
    compute: str | None = None

    def given(self, name: str) -> str | None:
        """Return the input called *name*."""
        value: str | None = getattr(self, name.replace("-", "_"))
        return value

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the pipeline's environment: with these inputs, without the action's."""
        kept = for_the_pipeline(environ)
        if self.creds and not environ.get("AZURE_SUBSCRIPTION_ID"):
            kept |= _subscription(self.creds)
        kept |= {variable: value for name, variable in _VARIABLES.items() if (value := self.given(name))}
        way = "creds" if self.creds else "secret" if self.client_secret else None
        if way and not kept.get(_WAY):
            # The input wins over all other variables.
            kept[_WAY] = way
        return kept

    def changes(self, target: str) -> tuple[str, ...]:
        """Return the changes of the configuration that apply these inputs to *target*.

        Raises:
            InvalidError: they name a workspace, and the target is the local AzureML.
        """
        if target == "local":
            wrong = [name for name in _AZURE_ONLY if self.given(name)]
            if wrong:
                remedy = "write `target: azure`, or `target: local` to train without Azure"
                what = "the target is `local`, which has none to choose"
                raise InvalidError([Fault(where=f"with.{name}", what=what, remedy=remedy) for name in wrong])
        keys = ("compute",) if target == "local" else _KEYS
        # JSON is YAML, so that text stays text.
        return tuple(f"targets.{target}.{key}={json.dumps(value)}" for key in keys if (value := self.given(key)))

    def without_workspace(self) -> AzureInputs:
        """Return the inputs that apply to the local AzureML."""
        return AzureInputs(compute=self.compute)


def read_azure(given: Mapping[str, str], environ: Mapping[str, str], faults: list[Fault]) -> AzureInputs:
    """Return the inputs about Azure.

    Args:
        given: name → text of the inputs that are not empty.
        environ: the step's environment, whose variables complete the inputs.
        faults: receives contradictory and incomplete inputs. No secret gets into it.
    """
    names = ("client-id", "tenant-id", *_KEYS, "client-secret", "creds", "environment")
    values = {name: text for name in names if (text := given.get(name, "").strip())}
    if "creds" in values:
        _check_creds(values, faults)
    elif "client-secret" in values:
        _check_complete(values, environ, "client-secret", ("client-id", "tenant-id"), faults)
    elif "tenant-id" in values:
        _check_complete(values, environ, "tenant-id", ("client-id",), faults)
    if "environment" in values:
        try:
            cloud_named(values["environment"])
        except InvalidError as error:
            what = f"there is no cloud {values['environment']!r}"
            faults.append(Fault(where="with.environment", what=what, remedy=str(error.hint)))
    return AzureInputs(**{name.replace("-", "_"): value for name, value in values.items()})


def _check_complete(
    values: Mapping[str, str], environ: Mapping[str, str], name: str, needs: tuple[str, ...], faults: list[Fault]
) -> None:
    missing = [one for one in needs if one not in values and not environ.get(_VARIABLES[one])]
    if missing:
        said = " and ".join(f"`{one}`" for one in missing)
        remedy = f"give {said} as well; an expression such as ${{{{ vars.NAME }}}} may be empty"
        faults.append(Fault(where=f"with.{name}", what=f"it needs {said}", remedy=remedy))


def _check_creds(values: Mapping[str, str], faults: list[Fault]) -> None:
    where = "with.creds"
    if "client-secret" in values:
        what = "both `creds` and `client-secret` are given"
        faults.append(Fault(where=where, what=what, remedy="keep one; with OIDC neither is needed"))
    found = _document(values["creds"])
    missing = [key for key in _CREDS if not isinstance(found.get(key), str) or not found[key]]
    if missing:
        what = f"it is no JSON object with {', '.join(_CREDS)}"
        remedy = "az ad sp create-for-rbac --json-auth writes one; better, sign in with OIDC: docs/azure.md"
        faults.append(Fault(where=where, what=what, remedy=remedy))
        return
    for other, key in (("client-id", "clientId"), ("tenant-id", "tenantId")):
        if values.get(other, found[key]).lower() != found[key].lower():
            remedy = f"leave `{other}` out, or leave `creds` out and sign in with OIDC"
            faults.append(Fault(where=where, what=f"its {key} is not `{other}`", remedy=remedy))


def _document(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _subscription(creds: str) -> dict[str, str]:
    """Return the subscription that azure/login's JSON names, as a variable."""
    found = _document(creds).get("subscriptionId")
    return {"AZURE_SUBSCRIPTION_ID": found} if isinstance(found, str) and found else {}
