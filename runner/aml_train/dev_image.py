"""The image of a development container: the tested one, or that of an environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aml_train.azure.environments import find_environment_image
from aml_train.core.errors import ImageError, InvalidError
from aml_train.core.events import Listener
from aml_train.core.references import ImageRef
from aml_train.image.base_files import ImageSettings
from aml_train.image.ensure import locate_image
from aml_train.image.records import known_record
from aml_train.pipeline.prepare import PreparedRun, image_lookup
from aml_train.pipeline.target import Target, open_target, open_workspace

if TYPE_CHECKING:
    from aml_train.image.registry.auth import RegistryAuth
    from aml_train.image.spec import TestRecord

_ENVIRONMENT: Final = re.compile(r"(?:azureml:)?(?P<name>[\w.-]+)(?::(?P<version>[\w.-]+)|@latest)?")


@dataclass(frozen=True, kw_only=True)
class DevImage:
    """An image that the engine of this machine can run.

    Attributes:
        repository: its name for this machine's engine, without digest or tag.
        digest: its manifest's digest; None for an image that only the engine has.
        settings: its user and variables.
        address: the tag of its content address; None for an environment's image.
        record: the record of the tests that passed in it; None without tests.
        environment: NAME:VERSION of the environment that it is the image of.
        auth: credentials to pull it with; None for those that the engine's user has.
    """

    repository: str
    digest: str | None
    settings: ImageSettings
    address: str | None = None
    record: TestRecord | None = None
    environment: str | None = None
    auth: RegistryAuth | None = None

    @property
    def reference(self) -> str:
        """The name of the image for the engine, pinned to the digest if there is one."""
        return self.repository if self.digest is None else f"{self.repository}@{self.digest}"

    def origin(self) -> dict[str, str]:
        """Return what the image was found by, for a record of it."""
        found = {"address": self.address, "environment": self.environment}
        return {name: value for name, value in found.items() if value is not None}


def find_dev_image(prepared: PreparedRun, emit: Listener, environment: str | None = None) -> DevImage:
    """Return the image to work in. Builds, tests and pulls nothing.

    Args:
        prepared: the plan.
        emit: receives the events of opening the target.
        environment: the environment of the workspace whose image is wanted, NAME or NAME:VERSION; by default the tested image of
            the configuration or, if it has no ``image``, that of the job's own environment.

    Raises:
        InvalidError: there is no such environment, or the job names none.
        ImageError: the configuration's image is not in the registry, or its tests have not passed in it.
        ServiceError: the target does not answer, or refuses.
    """
    if environment is None and prepared.plan.image is not None:
        return _tested(prepared, open_target(prepared.host, prepared.plan, emit))
    given = prepared.plan.environment if environment is None else environment
    if isinstance(given, Mapping):
        return _of_image(prepared, str(given.get("image") or ""), None)
    found = _ENVIRONMENT.fullmatch(str(given or ""))
    if found is None:
        raise InvalidError(
            f"`{given}` names no environment of the workspace" if given else "the job has no environment",
            hint="Name one: --environment NAME:VERSION, or write `image:` into aml-train.yml.",
        )
    config = prepared.plan.config
    connection = open_workspace(prepared.host, config.target, config.directory, emit)
    version, image = find_environment_image(connection.service, found["name"], found["version"])
    return _of_image(prepared, image, f"{found['name']}:{version}")


def _tested(prepared: PreparedRun, target: Target) -> DevImage:
    """Return the configuration's image, with the record of its tests."""
    spec, tests = prepared.plan.image, prepared.plan.tests
    if spec is None:
        raise ValueError("the configuration has no image")
    hint = "Build and test it: aml-train image build"
    location = target.image_registry()
    with location.client() as registry:
        found = locate_image(registry, spec)
        if found is None:
            what = f"the image of this configuration is not in {location.job_name} yet ({spec.address_tag})"
            raise ImageError(what, hint=hint)
        spec, manifest = found
        record = None
        if tests is not None:
            record = known_record(registry, spec, tests, manifest.digest)
            if record is None:
                what = f"these tests have not passed in {location.job_name}/{spec.repository}@{manifest.digest} yet"
                raise ImageError(what, hint=hint)
        config = registry.image_config(spec.repository, manifest, spec.platform)
    return DevImage(
        repository=f"{location.push_name}/{spec.repository}",
        digest=manifest.digest,
        settings=ImageSettings.of(config.optional_text("config.User"), config.list_of_texts("config.Env")),
        address=spec.address_tag,
        record=record,
        auth=location.credentials(),
    )


def _of_image(prepared: PreparedRun, image: str, environment: str | None) -> DevImage:
    """Return an image by its name, at the digest that its registry has now.

    Environments name the registry as jobs do, which for the local AzureML is another name than the engine's.
    """
    names = prepared.plan.names
    try:
        reference = ImageRef.parse(
            re.sub(rf"^{re.escape(names.registry_for_jobs)}/", f"{names.registry_for_engine}/", image)
        )
    except ValueError as error:
        raise InvalidError(f"`{image}` names no image: {error}") from error
    lookup = image_lookup(prepared.plan.config, prepared.host)
    platform = prepared.host.place(prepared.plan.config.builder).platform()
    base = lookup.resolve(reference, platform)
    settings: Any = lookup.settings(base, platform)
    name = reference.familiar if base.digest is None else base.pinned.partition("@")[0]
    return DevImage(repository=name, digest=base.digest, settings=settings, environment=environment)
