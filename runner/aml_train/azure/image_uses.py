"""Who uses which image: a workspace's models, jobs, environments and deployments.

A clean-up of the registry depends on these lists. Each is read whole, archived entries included, and whatever cannot be read is an
error. Images are looked for in all texts of an entry, so that no place of a name is forgotten.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import requests

from aml_train.azure.http import JOBS_API
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.image.prune.plan import Use
from aml_train.jobs.states import parse_status

_API: Final = "2023-08-01-preview"
_ALL: Final = {"api-version": _API, "listViewType": "All"}
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ENVIRONMENT: Final = re.compile(r"/environments/([^/\s]+)/versions/([^/\s]+)\Z")
#: Environments that azure-ai-ml makes for one job each; they live as long as the workspace, so only their jobs count.
_ANONYMOUS: Final = "CliV2AnonymousEnvironment"
_CURATED: Final = "AzureML-"


def read_image_uses(rest: AzureRest, host: str, *, since: datetime.datetime) -> Iterator[Use]:
    """Yield the uses of images in the registry *host*, by a whole workspace.

    Jobs count if they have not ended, if they were submitted after *since*, or if a model is from them.

    Raises:
        ServiceError: a list cannot be read, or a job has an unknown status.
    """
    rest.describe()
    yield from _Reader(rest=rest, host=host, since=since).uses()


@dataclass(kw_only=True)
class _Reader:
    """Reads one workspace.

    Attributes:
        images: of environments' versions that were looked up; None for one without an image.
        ended: the uses of old jobs, by the job's name, for the models that are from them.
    """

    rest: AzureRest
    host: str
    since: datetime.datetime
    images: dict[tuple[str, str], str | None] = field(default_factory=dict)
    ended: dict[str, tuple[Use, ...]] = field(default_factory=dict)

    def uses(self) -> Iterator[Use]:
        yield from self._environments()
        yield from self._jobs()
        yield from self._models()
        yield from self._deployments()

    def _environments(self) -> Iterator[Use]:
        for name in self._names("environments", "Listing the environments"):
            if name == _ANONYMOUS or name.startswith(_CURATED):
                continue
            for version in self._versions("environments", name, f"Listing the versions of the environment {name}"):
                image = version.optional_text("properties.image")
                self.images[name, version.text("name")] = image
                if not version.flag("properties.isAnonymous"):
                    yield from self._named(image, f"the environment {name}:{version.text('name')}")

    def _jobs(self) -> Iterator[Use]:
        params = {"api-version": JOBS_API, "listViewType": "All"}
        for item in self.rest.items(self.rest.arm("/jobs"), "Listing the jobs", params=params, required=True):
            name = item.text("name")
            live = not parse_status(item.optional_text("properties.status")).final
            created = item.time("systemData.createdAt")
            recent = created is None or created >= self.since
            found = tuple(self._job_uses(item, f"the {'live' if live else 'recent' if recent else 'old'} job {name}"))
            if live or recent:
                yield from found
            self.ended[name] = found

    def _job_uses(self, item: Answer, by: str) -> Iterator[Use]:
        """Yield the uses of a job, also if it is a pipeline job with steps."""
        properties = item.mapping("properties")
        yield from self._texts(properties, by)
        # A job of aml-train names its image in its tags.
        yield from self._environments_of(properties, by, known=bool(item.texts("properties.tags").get(Tag.DIGEST)))

    def _models(self) -> Iterator[Use]:
        for name in self._names("models", "Listing the models"):
            for version in self._versions("models", name, f"Listing the versions of the model {name}"):
                by = f"the model {name}:{version.text('name')}"
                found = list(self._texts(version.mapping("properties"), by))
                yield from found
                job = version.optional_text("properties.jobName")
                if job and not any(use.digest for use in found):
                    yield from self._of_job(job, by)

    def _of_job(self, job: str, by: str) -> Iterator[Use]:
        if job not in self.ended:
            item = self.rest.find_job(job)
            self.ended[job] = () if item is None else tuple(self._job_uses(item, by))
        for use in self.ended[job]:
            yield Use(digest=use.digest, tag=use.tag, repository=use.repository, by=by)

    def _deployments(self) -> Iterator[Use]:
        """Yield the images of deployments and schedules."""
        params = {"api-version": _API}
        for kind in ("onlineEndpoints", "batchEndpoints"):
            for endpoint in self._offered(kind, f"Listing the {kind}"):
                name = endpoint.text("name")
                address = self.rest.arm(f"/{kind}/{quote(name)}/deployments")
                what = f"Listing the deployments of the endpoint {name}"
                for one in self.rest.items(address, what, params=params, required=True):
                    yield from self._all(one, f"the deployment {one.text('name')} of the endpoint {name}")
        for one in self._offered("schedules", "Listing the schedules"):
            yield from self._all(one, f"the schedule {one.text('name')}")

    def _offered(self, kind: str, what: str) -> Iterator[Answer]:
        """Yield a list's items; none if the service has no such interface at all."""
        url, params = self.rest.arm(f"/{kind}"), {"api-version": _API}
        status = self.rest.call("GET", url, what, lambda response: response.status_code, params=params)
        if status != requests.codes.not_implemented:
            yield from self.rest.items(url, what, params=params, required=True)

    def _all(self, item: Answer, by: str) -> Iterator[Use]:
        properties = item.mapping("properties")
        yield from self._texts(properties, by)
        yield from self._environments_of(properties, by, known=False)

    def _texts(self, value: Any, by: str) -> Iterator[Use]:
        for text in texts_in(value):
            yield from self._named(text, by)

    def _named(self, text: str | None, by: str) -> Iterator[Use]:
        """Yield the uses that one text names."""
        if not text:
            return
        reference = reference_in(text, self.host)
        if reference is not None:
            yield Use(digest=reference.digest, repository=reference.repository, tag=reference.tag, by=by)
            return
        for digest in dict.fromkeys(_DIGEST.findall(text)):
            yield Use(digest=digest, by=by)

    def _environments_of(self, value: Any, by: str, *, known: bool) -> Iterator[Use]:
        for text in () if known else texts_in(value):
            match = _ENVIRONMENT.search(text)
            if match is not None and "/registries/" not in text:
                yield from self._named(self._image(match[1], match[2]), by)

    def _image(self, name: str, version: str) -> str | None:
        if (name, version) not in self.images:
            url = self.rest.arm(f"/environments/{quote(name)}/versions/{quote(version)}")
            found = self.rest.read(url, f"Looking for the environment {name}:{version}", params={"api-version": _API})
            self.images[name, version] = None if found is None else found.optional_text("properties.image")
        return self.images[name, version]

    def _names(self, kind: str, what: str) -> list[str]:
        listed = self.rest.items(self.rest.arm(f"/{kind}"), what, params=_ALL, required=True)
        return [item.text("name") for item in listed]

    def _versions(self, kind: str, name: str, what: str) -> Iterator[Answer]:
        address = self.rest.arm(f"/{kind}/{quote(name)}/versions")
        return self.rest.items(address, what, params=_ALL, required=True)


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value, the keys of its mappings included. Pure."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one


def reference_in(text: str, host: str) -> ImageRef | None:
    """Return the image that *text* names, if it is in the registry *host*. Pure."""
    if not text.lower().startswith(f"{host.lower()}/"):
        return None
    try:
        return ImageRef.parse(text)
    except ValueError:
        return None
