"""The workspace, its discovery document, and the cloud's own description."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, Final

from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Call, Route
from aml_emulator.api.shapes import PROVIDER, iso, page, resource
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.identity.identity import Identity
from aml_emulator.schema import TEXT, Fields, ListOf

KINDS: Final = ("schedules", "connections", "onlineEndpoints", "batchEndpoints")


def empty_routes() -> Sequence[Route]:
    """Return the routes of lists that are always empty."""
    return [Route("GET", f"{{WS}}/{kind}", lambda call: page(call, [], None)) for kind in KINDS]


_GROUP: Final = "/subscriptions/{sub}/resourceGroups/{rg}"
_PERMISSIONS: Final = "providers/Microsoft.Authorization/permissions"


def check_registry(context: Context, call: Call) -> None:
    """Refuse another name than that of the registry of images."""
    if call.params["name"].lower() != context.identity.registry_name:
        raise resource_not_found(f"Microsoft.ContainerRegistry/registries/{call.params['name']}")


def permission_routes(context: Context) -> Sequence[Route]:
    """Return the routes of permissions."""
    identity = context.identity

    def workspace(_call: Call) -> dict[str, Any]:
        return {"value": context.roles.permissions("workspace")}

    def registry(call: Call) -> dict[str, Any]:
        check_registry(context, call)
        return {"value": context.roles.permissions("registry")}

    def storage(call: Call) -> dict[str, Any]:
        if call.params["name"].lower() != identity.storage_account:
            raise resource_not_found(f"Microsoft.Storage/storageAccounts/{call.params['name']}")
        return {"value": context.roles.permissions("storage")}

    def group(_call: Call) -> dict[str, Any]:
        return {"value": context.roles.permissions("subscription")}

    providers = f"{_GROUP}/providers"
    return (
        Route("GET", f"{_GROUP}/{_PERMISSIONS}", group),
        Route("GET", f"{{WS}}/{_PERMISSIONS}", workspace),
        Route("GET", f"{providers}/Microsoft.ContainerRegistry/registries/{{name}}/{_PERMISSIONS}", registry),
        Route("GET", f"{providers}/Microsoft.Storage/storageAccounts/{{name}}/{_PERMISSIONS}", storage),
    )


DISCOVERED = (
    "api",
    "experimentation",
    "history",
    "hyperdrive",
    "labeling",
    "modelmanagement",
    "pipelines",
    "studiocoreservices",
)
"""The services that discovery names, as Microsoft's REST guide lists them: https://learn.microsoft.com/azure/machine-learning/how-to-manage-rest.

``studio`` is named besides: azureml-core 1.61 ends with a KeyError without it (``_restclient/service_context.py``, ``_fetch_endpoints``).
"""


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of workspaces."""
    workspaces = Workspaces(context)
    group = "/subscriptions/{sub}/resourceGroups/{rg}"
    provider = "providers/Microsoft.MachineLearningServices/workspaces"
    return (
        Route("GET", "/metadata/endpoints", workspaces.endpoints, open=True),
        Route("GET", "/discovery", workspaces.discovery, open=True),
        Route("GET", "/discovery/workspaces/{id}", workspaces.discovery, open=True),
        Route("GET", "/tenants", workspaces.tenants),
        Route("GET", "/subscriptions", workspaces.subscriptions),
        Route("GET", "/subscriptions/{sub}", workspaces.subscription),
        Route("GET", "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices", workspaces.provider),
        Route("GET", "/subscriptions/{sub}/resources", workspaces.resources),
        Route("GET", f"{group}/resources", workspaces.resources),
        Route("GET", "{WS}", workspaces.get),
        Route("POST", "{WS}/listKeys", workspaces.keys),
        Route("GET", f"/subscriptions/{{sub}}/{provider}", workspaces.list),
        Route("GET", f"{group}/{provider}", workspaces.list),
        Route("GET", group, workspaces.group),
        Route("POST", f"{group}/providers/Microsoft.Resources/deployments/{{name}}/validate", workspaces.validate),
        Route("GET", f"{group}/providers/Microsoft.ContainerRegistry/registries/{{name}}", workspaces.registry),
        Route("GET", "/subscriptions/{sub}/providers/Microsoft.ContainerRegistry/registries", workspaces.registries),
        Route(
            "POST",
            f"{group}/providers/Microsoft.ContainerRegistry/registries/{{name}}/listCredentials",
            workspaces.registry_credentials,
        ),
    )


_COMPONENTS: Final = "workspaces/components/versions"
_DEPLOYMENT: Final = Fields(
    {"properties": Fields({"template": Fields({"resources": ListOf(Fields({"type": TEXT, "name": TEXT}))})})}
)
_UNSET = dict.fromkeys(
    ("imageBuildCompute", "linkedModelInventoryArmId", "sdkTelemetryAppInsightsKey", "serverlessComputeSettings")
)


class Workspaces:
    """Answers for a workspace, and for lists of all workspaces."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._started = context.clock()

    def endpoints(self, _call: Call) -> list[dict[str, Any]]:
        """Return the cloud's addresses, as azure-ai-ml and azureml-mlflow look them up."""
        return [
            {
                "name": "AzureCloud",
                "portal": "https://portal.azure.com",
                "authentication": {
                    "loginEndpoint": "https://login.microsoftonline.com/",
                    "audiences": ["https://management.core.windows.net/", "https://management.azure.com/"],
                    "tenant": "common",
                    "identityProvider": "AAD",
                },
                "graphAudience": "https://graph.windows.net/",
                "graph": "https://graph.windows.net/",
                "suffixes": {
                    "azureDataLakeStoreFileSystem": "azuredatalakestore.net",
                    "acrLoginServer": "azurecr.io",
                    "keyVaultDns": "vault.azure.net",
                    "storage": "core.windows.net",
                },
                "resourceManager": "https://management.azure.com/",
            }
        ]

    def discovery(self, _call: Call) -> dict[str, str]:
        """Return the address of each of AzureML's own services: they are all one."""
        api = f"https://{self._context.identity.api_host}"
        return {**dict.fromkeys(DISCOVERED, api), "studio": "https://ml.azure.com"}

    def tenants(self, _call: Call) -> dict[str, Any]:
        """Return the tenants that the caller may sign in to: one.

        See https://learn.microsoft.com/rest/api/resources/tenants/list.
        """
        identity = self._context.identity
        domain = identity.person.username.partition("@")[2]
        return {
            "value": [
                {
                    "id": f"/tenants/{identity.tenant_id}",
                    "tenantId": identity.tenant_id,
                    "displayName": "The local AzureML",
                    "defaultDomain": domain,
                    "domains": [domain],
                    "tenantCategory": "Home",
                    "tenantType": "AAD",
                }
            ]
        }

    def subscriptions(self, call: Call) -> dict[str, Any]:
        """Return the subscriptions: one."""
        return {"value": [self.subscription(call)]}

    def subscription(self, _call: Call) -> dict[str, Any]:
        """Return the subscription."""
        identity = self._context.identity
        return {
            "id": f"/subscriptions/{identity.subscription_id}",
            "subscriptionId": identity.subscription_id,
            "displayName": "The local AzureML",
            "state": "Enabled",
            "tenantId": identity.tenant_id,
            "subscriptionPolicies": {},
        }

    def provider(self, _call: Call) -> dict[str, Any]:
        """Return where workspaces can be made: where the one is."""
        identity = self._context.identity
        locations = [identity.location]
        return {
            "id": f"/subscriptions/{identity.subscription_id}/providers/Microsoft.MachineLearningServices",
            "namespace": "Microsoft.MachineLearningServices",
            "registrationState": "Registered",
            "registrationPolicy": "RegistrationRequired",
            "resourceTypes": [
                {"resourceType": kind, "locations": locations, "apiVersions": ["2024-10-01", "2024-04-01"]}
                for kind in ("workspaces", "workspaces/computes")
            ],
        }

    def group(self, _call: Call) -> dict[str, Any]:
        """Return the resource group."""
        identity = self._context.identity
        return {
            "id": identity.resource_group_id,
            "name": identity.resource_group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": identity.location,
            "properties": {"provisioningState": "Succeeded"},
        }

    def validate(self, call: Call) -> dict[str, Any]:
        """Accept components that are not created, as Azure does whatever their commands refer to.

        Recorded in March 2026: component/e2etests, test_component_validate_via_schema.
        """
        identity, validated = self._context.identity, []
        template = (call.json(_DEPLOYMENT).get("properties") or {}).get("template") or {}
        for resource_ in template.get("resources") or []:
            kind, names = str(resource_.get("type")), str(resource_.get("name")).split("/")
            if kind.lower() != f"{PROVIDER}/{_COMPONENTS}".lower() or len(names) != 3:
                raise NotSupportedError(f"validating a resource of the type '{kind}' (only {PROVIDER}/{_COMPONENTS})")
            validated.append({"id": f"{identity.workspace_arm_id}/components/{names[1]}/versions/{names[2]}"})
        types = [{"resourceType": _COMPONENTS, "locations": [identity.location]}]
        return {
            "id": f"{identity.resource_group_id}/providers/Microsoft.Resources/deployments/{call.params['name']}",
            "name": call.params["name"],
            "type": "Microsoft.Resources/deployments",
            "properties": {
                "parameters": {},
                "mode": "Incremental",
                "provisioningState": "Succeeded",
                "timestamp": iso(self._context.clock()),
                "duration": "PT0S",
                "correlationId": str(uuid.uuid4()),
                "providers": [{"namespace": PROVIDER, "resourceTypes": types}],
                "dependencies": [],
                "validatedResources": validated,
            },
        }

    def list(self, _call: Call) -> dict[str, Any]:
        """Return the workspaces."""
        return {"value": [self._view(identity) for identity in self._context.workspaces()]}

    def resources(self, call: Call) -> dict[str, Any]:
        """Return the resources of the type in the filter: there are workspaces alone."""
        wanted = call.query.get("$filter", "")
        types = re.findall(r"resourceType eq '([^']+)'", wanted, flags=re.IGNORECASE)
        if [one.lower() for one in types] != ["microsoft.machinelearningservices/workspaces"]:
            raise NotSupportedError(f"listing resources by '{wanted}'")
        return self.list(call)

    def get(self, _call: Call) -> dict[str, Any]:
        """Return the workspace."""
        return self._view(self._context.identity)

    def _view(self, identity: Identity) -> dict[str, Any]:
        providers = f"{identity.resource_group_id}/providers"
        return resource(
            identity.workspace_arm_id,
            "workspaces",
            {
                **_UNSET,
                "notebookInfo": {
                    "resourceId": identity.workspace_id.replace("-", ""),
                    "fqdn": f"ml-{identity.workspace}-{identity.location}-{identity.workspace_id}.notebooks.azure.net",
                    "isPrivateLinkEnabled": False,
                    "notebookPreparationError": None,
                },
                # Recorded in March 2026: component/e2etests, test_component_validate_via_schema.
                "managedNetwork": {
                    "changeableIsolationModes": ["AllowInternetOutbound", "AllowOnlyApprovedOutbound"],
                    "isolationMode": "Disabled",
                    "enableNetworkMonitor": False,
                    "enableFirewallLog": False,
                },
                "networkAcls": {"defaultAction": "Allow", "bypass": "", "ipRules": [], "resourceAccessRules": []},
                "ipAllowlist": [],
                "allowRoleAssignmentOnRG": True,
                "EnableSoftwareBillOfMaterials": False,
                "systemDatastoresAuthMode": "accesskey",
                "enableServiceSideCMKEncryption": False,
                "creationTime": iso(self._started),
                "softDeleteEnabled": False,
                "privateLinkCount": 0,
                "friendlyName": identity.workspace,
                "description": "The local AzureML",
                "storageAccount": identity.storage_id,
                "keyVault": f"{providers}/Microsoft.KeyVault/vaults/amllocalkv",
                "applicationInsights": f"{providers}/Microsoft.Insights/components/amllocalai",
                "containerRegistry": identity.registry_id,
                "hbiWorkspace": False,
                "provisioningState": "Succeeded",
                "discoveryUrl": f"https://{identity.api_host}/discovery",
                "mlFlowTrackingUri": f"azureml://{identity.api_host}/mlflow/v1.0{identity.workspace_arm_id}",
                "workspaceId": identity.workspace_id,
                "publicNetworkAccess": "Enabled",
                "tenantId": identity.tenant_id,
                "v1LegacyMode": False,
                "storageHnsEnabled": False,
                "enableDataIsolation": False,
            },
            created=self._started,
            modified=self._started,
            location=identity.location,
            tags={},
            kind="Default",
            etag=None,
            sku={"name": "Basic", "tier": "Basic"},
            identity={"type": "SystemAssigned", "principalId": identity.object_id, "tenantId": identity.tenant_id},
        )

    def registry(self, call: Call) -> dict[str, Any]:
        """Return the workspace's registry, which knows its own address."""
        check_registry(self._context, call)
        return self._registry()

    def registries(self, _call: Call) -> dict[str, Any]:
        """Return the subscription's registries: one."""
        return {"value": [self._registry()]}

    def registry_credentials(self, call: Call) -> dict[str, Any]:
        """Return the registry's admin user."""
        check_registry(self._context, call)
        return self._admin()

    def _admin(self) -> dict[str, Any]:
        user, password = self._context.tokens.registry_admin
        return {"username": user, "passwords": [{"name": "password", "value": password}]}

    def keys(self, _call: Call) -> dict[str, Any]:
        """Return the keys of the workspace's storage account and registry; it has no notebooks and no Application Insights."""
        identity = self._context.identity
        return {
            "userStorageKey": identity.storage_key,
            "userStorageArmId": identity.storage_id,
            "appInsightsInstrumentationKey": None,
            "containerRegistryCredentials": {"location": identity.location, **self._admin()},
            "notebookAccessKeys": None,
        }

    def _registry(self) -> dict[str, Any]:
        identity = self._context.identity
        return {
            "id": identity.registry_id,
            "name": identity.registry_name,
            "type": "Microsoft.ContainerRegistry/registries",
            "location": identity.location,
            "sku": {"name": "Basic", "tier": "Basic"},
            "properties": {
                "loginServer": identity.login_server,
                "provisioningState": "Succeeded",
                "adminUserEnabled": True,
            },
        }
