"""Registries as resources, and the discovery by which clients find their hosts.

Shapes are those of azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/registry/e2etests, test_registry_operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.arm.workspaces import check_registry
from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import PROVIDER, cut, iso, page
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.domain.registries import (
    Registry,
    all_registries,
    find_registry,
    known_registry,
)
from aml_emulator.domain.registry_tasks import RUN_REQUEST, RegistryTasks
from aml_emulator.network.hosts import REGISTRY_SUFFIX
from aml_emulator.store.assets import AssetContainer

MAX_PAGE = 100
_REGISTRY = "/subscriptions/{sub}/resourceGroups/{rg}/providers/Microsoft.ContainerRegistry/registries/{name}"


def task_routes(context: Context, tasks: RegistryTasks) -> Sequence[Route]:
    """Return the routes of the registry's runs."""
    answers = TaskAnswers(context, tasks)
    return (
        Route("POST", f"{_REGISTRY}/listBuildSourceUploadUrl", answers.upload),
        Route("POST", f"{_REGISTRY}/scheduleRun", answers.schedule),
        Route("GET", f"{_REGISTRY}/runs", answers.list),
        Route("GET", f"{_REGISTRY}/runs/{{run}}", answers.get),
        Route("POST", f"{_REGISTRY}/runs/{{run}}/listLogSasUrl", answers.log),
        Route("POST", f"{_REGISTRY}/runs/{{run}}/cancel", answers.cancel),
    )


class TaskAnswers:
    """Answers for one registry's runs."""

    def __init__(self, context: Context, tasks: RegistryTasks) -> None:
        self._context = context
        self._tasks = tasks

    def upload(self, call: Call) -> dict[str, Any]:
        """Return where to upload a source."""
        check_registry(self._context, call)
        url, path = self._tasks.upload()
        return {"uploadUrl": url, "relativePath": path}

    def schedule(self, call: Call) -> Reply:
        """Begin a run."""
        check_registry(self._context, call)
        return Reply(value=self._view(self._tasks.schedule(call.json(RUN_REQUEST))))

    def list(self, call: Call) -> dict[str, Any]:
        """Return the runs, newest first."""
        check_registry(self._context, call)
        if call.option("$filter"):
            raise NotSupportedError("a filter of the registry's runs")
        top = call.integer("$top", MAX_PAGE, low=1, high=MAX_PAGE)
        shown, following = cut(self._tasks.runs(), call.integer("$skip", 0), top)
        return page(call, [self._view(run) for run in shown], following)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one run."""
        check_registry(self._context, call)
        return self._view(self._tasks.run(call.params["run"]))

    def log(self, call: Call) -> dict[str, Any]:
        """Return the signed address of a run's log."""
        check_registry(self._context, call)
        return {"logLink": self._tasks.log_address(call.params["run"])}

    def cancel(self, call: Call) -> Reply:
        """End a run; the answer does not wait for it."""
        check_registry(self._context, call)
        self._tasks.cancel(call.params["run"])
        return Reply(status=202)

    def _view(self, run: AssetContainer) -> dict[str, Any]:
        return {
            "id": f"{self._context.identity.registry_id}/runs/{run.name}",
            "name": run.name,
            "type": "Microsoft.ContainerRegistry/registries/runs",
            "properties": dict(run.properties),
        }


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of registries."""
    registries = Registries(context)
    group = f"/subscriptions/{{sub}}/resourceGroups/{{rg}}/providers/{PROVIDER}/registries"
    subscription = f"/subscriptions/{{sub}}/providers/{PROVIDER}"
    return (
        Route("GET", "/registrymanagement/v1.0/registries/{registry}/discovery", registries.discover),
        Route("GET", group, registries.list),
        Route("GET", f"{subscription}/registries", registries.list),
        Route("GET", f"{group}/{{registry}}", registries.get),
    )


class Registries(Answers):
    """Answers for registries."""

    def discover(self, call: Call) -> dict[str, Any]:
        """Return where a registry's services are: at one host, in one region."""
        registry = known_registry(self._context, call.params["registry"])
        identity = self._context.identity
        return {
            "registryId": registry.id,
            "registryName": registry.name,
            "tenantId": identity.tenant_id,
            "primaryRegion": identity.location,
            "regions": [identity.location],
            "subscriptionId": identity.subscription_id,
            "resourceGroup": identity.resource_group,
            "workspaceName": None,
            "primaryRegionResourceProviderUri": f"https://cert-{identity.location}{REGISTRY_SUFFIX}/",
            "registryFqdns": {
                identity.location: {"uri": f"https://{registry.id}.registry.{identity.location}.api.azureml.ms"}
            },
        }

    def list(self, call: Call) -> dict[str, Any]:
        """Return the registries; that of Microsoft is in no subscription."""
        own = [one for one in all_registries(self._context) if not one.curated]
        return page(call, [self._view(one) for one in own], None)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one registry."""
        return self._view(self._known(call))

    def _known(self, call: Call) -> Registry:
        found = find_registry(self._context, call.params["registry"])
        if found is None or found.curated:
            raise resource_not_found(f"{PROVIDER}/registries/{call.params['registry']}")
        return found

    def _view(self, registry: Registry) -> dict[str, Any]:
        identity = self._context.identity
        arm_id = f"{identity.resource_group_id}/providers/{PROVIDER}/registries/{registry.name}"
        group = f"/subscriptions/{identity.subscription_id}/resourceGroups/azureml-rg-{registry.name}_{registry.id}"
        tags = dict(registry.properties.get("tags") or {})
        return {
            "id": arm_id,
            "name": registry.name,
            "type": f"{PROVIDER}/registries",
            "location": identity.location,
            "tags": tags,
            "identity": {"type": "SystemAssigned", "principalId": identity.object_id, "tenantId": identity.tenant_id},
            "properties": {
                "description": registry.properties.get("description"),
                "regionDetails": [
                    {
                        "location": identity.location,
                        "storageAccountDetails": [
                            {
                                "userCreatedStorageAccount": None,
                                "systemCreatedStorageAccount": {
                                    "storageAccountName": identity.storage_account,
                                    "storageAccountType": "standard_lrs",
                                    "storageAccountHnsEnabled": False,
                                    "armResourceId": {"resourceId": identity.storage_id},
                                },
                            }
                        ],
                        "acrDetails": [
                            {
                                "userCreatedAcrAccount": None,
                                "systemCreatedAcrAccount": {
                                    "acrAccountName": identity.registry_name,
                                    "acrAccountSku": "Premium",
                                    "armResourceId": {"resourceId": identity.registry_id},
                                },
                            }
                        ],
                    }
                ],
                "intellectualPropertyPublisher": None,
                "publicNetworkAccess": "Enabled",
                "discoveryUrl": f"https://{identity.api_host}/registrymanagement/v1.0/registries/{registry.name}/discovery",
                "managedResourceGroup": {"resourceId": group},
                "managedResourceGroupTags": tags,
                "mlFlowRegistryUri": f"azureml://{identity.api_host}/mlflow/v1.0{arm_id}",
                "creationTime": iso(registry.created),
            },
            "systemData": None,
        }
