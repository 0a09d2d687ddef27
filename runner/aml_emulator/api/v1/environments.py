"""The environment service of azureml-core: ``/environment/v1.0``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.api.shapes import listed
from aml_emulator.context import Context
from aml_emulator.domain import NotFoundError, environment_definition, plain_definition, register_environment
from aml_emulator.schema import Fields


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of environments."""
    environments = Environments(context)
    base = "/environment/v1.0{WS}/environments"
    return (
        Route(method="GET", path=base, handler=environments.list),
        Route(method="GET", path=f"{base}/{{name}}", handler=environments.get),
        Route(method="PUT", path=f"{base}/{{name}}", handler=environments.put),
        Route(method="GET", path=f"{base}/{{name}}/versions/{{version}}", handler=environments.get),
        Route(method="PUT", path=f"{base}/{{name}}/versions/{{version}}", handler=environments.put),
    )


class Environments(Answers):
    """Answers for environments."""

    def list(self, call: Call) -> dict[str, Any]:
        """Return the newest version of each environment."""
        del call
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
