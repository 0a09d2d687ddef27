"""The environment service of azureml-core: definitions, and builds of images.

Definitions are below ``/environment/v1.0``, builds below ``/environment/v2.0``. Requests and answers are those of azureml-core 1.61.0
(``_restclient/environment_client.py``). An operation's path, and 202 until it has ended, are as recorded for environments of registries
(azure-sdk-for-python, ``test_registry_environment_create_conda_and_get``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import listed
from aml_emulator.context import Context
from aml_emulator.domain.environment_builds import ACTIVE_BUILD, EnvironmentBuilds
from aml_emulator.domain.environments import environment_definition, plain_definition, register_environment
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.schema import Fields

_OPERATIONS: Final = "/environment/v1.0/operations"


def routes(context: Context, builds: EnvironmentBuilds | None = None) -> Sequence[Route]:
    """Return the routes of environments; *builds* is None for a service without them."""
    environments = Environments(context, builds)
    base = "/environment/v1.0{WS}/environments"
    return (
        *(_build_routes(context, builds) if builds is not None else ()),
        Route("GET", f"{_OPERATIONS}/{{number}}", environments.operation),
        Route("GET", base, environments.list),
        Route("GET", f"{base}/{{name}}", environments.get),
        Route("PUT", f"{base}/{{name}}", environments.put),
        Route("GET", f"{base}/{{name}}/versions/{{version}}", environments.get),
        Route("PUT", f"{base}/{{name}}/versions/{{version}}", environments.put),
    )


def _build_routes(context: Context, builds: EnvironmentBuilds) -> Sequence[Route]:
    answers = Builds(context, builds)
    version = "{WS}/environments/{name}/versions/{version}"
    return (
        Route("POST", f"/environment/v2.0{version}/image", answers.start),
        Route("POST", f"/environment/v2.0{version}/imageoncompute/{{compute}}", answers.start),
        Route("GET", f"/environment/v1.0{version}/image", answers.details),
        Route("GET", "/environment/v1.0{WS}/environments/{name}/image", answers.details),
    )


class Builds(Answers):
    """Answers for builds of environments' images."""

    def __init__(self, context: Context, builds: EnvironmentBuilds) -> None:
        super().__init__(context)
        self._builds = builds

    def start(self, call: Call) -> Reply:
        """Begin a build; its compute has to exist, and the engine does the work."""
        compute = call.params.get("compute")
        if compute is not None and self._context.store.assets.compute(compute) is None:
            raise NotFoundError(f"compute '{compute}'")
        call.json(Fields())
        number = self._builds.start(call.params["name"], call.params["version"])
        address = f"https://{call.host}{_OPERATIONS}/{number}"
        return Reply(status=202, value={"location": address}, headers={"Location": address})

    def details(self, call: Call) -> dict[str, Any]:
        """Return an environment's image, and whether it is in the registry."""
        return self._builds.details(call.params["name"], call.params.get("version"))


class Environments(Answers):
    """Answers for environments."""

    def __init__(self, context: Context, builds: EnvironmentBuilds | None) -> None:
        super().__init__(context)
        self._builds = builds

    def operation(self, call: Call) -> Reply:
        """Return the state of a build, or of an operation on a registry's environment."""
        number = call.params["number"]
        if self._context.store.assets.operation(number) is not None:
            # A registry's environment is stored before its operation is answered.
            return Reply(status=200)
        if self._builds is None:
            raise NotFoundError(f"operation '{number}'")
        found = self._builds.operation(number)
        return Reply(status=202 if found["status"] in ACTIVE_BUILD else 200, value=found)

    def list(self, _call: Call) -> dict[str, Any]:
        """Return the newest version of each environment."""
        assets = self._context.store.assets
        found = []
        for container in assets.containers("environments"):
            versions = [one for one in assets.versions("environments", container.name) if _is_named(one.properties)]
            if versions and (versions[0].properties.get("image") or versions[0].properties.get("build")):
                found.append(environment_definition(self._context, versions[0]))
        return listed(found)

    def get(self, call: Call) -> dict[str, Any]:
        """Return a version of an environment, the newest one where none is named."""
        name, version = call.params["name"], call.params.get("version")
        versions = self._context.store.assets.versions("environments", name)
        for one in versions:
            if one.version == version or (version is None and _is_named(one.properties)):
                return environment_definition(self._context, one)
        image = self._context.environments.image_of(name, version) if name.lower().startswith("azureml-") else None
        if image is None:
            raise NotFoundError(f"environment '{name}'" + (f", version '{version}'" if version else ""))
        return plain_definition(name, version or "1", image)

    def put(self, call: Call) -> dict[str, Any]:
        """Register an environment."""
        return register_environment(
            self._context, call.params["name"], call.params.get("version"), call.json(Fields())
        )


def _is_named(properties: Any) -> bool:
    return not properties.get("isAnonymous")
