"""The workspace by azure-ai-ml, which submits and registers; reads are plain REST."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import io
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aml_train.azure import sdk_v1 as azure_v1
from aml_train.azure.blob.address import JobOutput
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.clouds import AZURE_PUBLIC, Cloud, core_sdk
from aml_train.azure.code import ensure_code
from aml_train.azure.data_identity import identify_data
from aml_train.azure.identity import read_identity, read_run_identity
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk import made, ml_sdk, quiet, refusal, unexpected
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.config.job.model import mapping_at
from aml_train.config.job.paths import change_paths
from aml_train.config.sections.watch import RESUME_INPUT
from aml_train.core import retry as retries
from aml_train.core.answers import REACH, Answer, clean, traced
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.tags import Tag
from aml_train.core.temporary import temporary_folder
from aml_train.core.text import yaml_text
from aml_train.core.threads import CancelToken
from aml_train.core.version import PRODUCT
from aml_train.jobs.data import DataIdentity, DataSource
from aml_train.jobs.identity import Identity
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobView, ModelView, NewModel, no_job
from aml_train.models.register import is_same_model

if TYPE_CHECKING:
    import requests
    from azure.ai.ml import MLClient


@contextlib.contextmanager
def component_files(document: Mapping[str, Any], directory: Path) -> Iterator[dict[str, Any]]:
    """Write the components in a job's document to files for the time of the block.

    Yields:
        the document with the paths of these files in place of the components.

    Args:
        document: the job; another kind than a pipeline is yielded as it is.
        directory: the folder that its relative paths start from.
    """
    if str(document.get("type") or "").lower() != "pipeline":
        yield dict(document)
        return
    with temporary_folder("code") as folder:
        yield _written(copy.deepcopy(dict(document)), directory, folder, "")


def _written(pipeline: dict[str, Any], directory: Path, folder: Path, before: str) -> dict[str, Any]:
    """Write the components of a pipeline's nodes; return it with their paths."""
    for name, node in pipeline["jobs"].items():
        # Relative paths would start from the folder of the files.
        change_paths(node, lambda text: str(directory / text))
        for key in ("component", "trial"):
            component = node.get(key)
            if not isinstance(component, dict):
                continue
            if "jobs" in component:
                component = _written(component, directory, folder, f"{before}{name}.")
            change_paths(component, lambda text: str(directory / text))
            file = folder / f"{before}{name}.yml"
            file.write_text(yaml_text(component), encoding="utf-8")
            node[key] = str(file)
    return pipeline


_NAMED_CODE: Final = re.compile(r"azureml:([^/:@]+):([^/:@]+)")
_SERVICES_OWN: Final = re.compile(
    r"_azureml|azureml\.|mlflow\.|(?:ContentSnapshotId|ProcessInfoFile|ProcessStatusFile|exitCode|errorMessage)$"
)
#: What the thread is submitting: each has its own.
_LEAVING: Final[ContextVar[CancelToken | None]] = ContextVar("leaving", default=None)
#: Seconds; azure-core's own are 300 each, so that one request that hangs would hold up a run for twenty minutes.
_CONNECT_TIMEOUT, _ANSWER_TIMEOUT = 10.0, 120.0
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
#: What azure-core reads a wait from (``azure/core/pipeline/policies/_utils.py``, 1.41); only the first is a standard's.
_WAITS: Final = ("Retry-After", "retry-after-ms", "x-ms-retry-after-ms")
_LOG = logging.getLogger(__name__)


class _PutOffError(Exception):
    """A refusal that asks for a longer wait than a run's limit.

    It is no AzureError: azure-core would send the request again.
    """

    def __init__(self, refusal: Any) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
        self.status_code = refusal.status_code


def _bound_wait(response: Any) -> None:
    """Bound the wait that an answer requests; remove one that cannot be read.

    azure-core sleeps as long as any Retry-After says, a day as well (``RetryPolicy._sleep_for_retry``, 1.41).

    Raises:
        _PutOffError: a refusal asks for a longer wait than :data:`aml_train.core.retry.LONGEST_WAIT_SECONDS`.
    """

    answer = response.http_response
    asked = retries.retry_after(answer.headers)
    if answer.status_code >= 400 and asked is not None and asked > retries.LONGEST_WAIT_SECONDS:
        raise _PutOffError(core_sdk().exceptions.HttpResponseError(response=answer))
    for name in _WAITS:
        answer.headers.pop(name, None)
    if asked is not None:
        answer.headers["Retry-After"] = f"{min(asked, retries.LONGEST_WAIT_SECONDS):.0f}"


class AzureV2(AzureRest):
    """A workspace by azure-ai-ml; see :class:`aml_train.jobs.workspace.Workspace`.

    Args:
        workspace: where.
        credential: signs in.
        cloud: the cloud that it is in.
        session: sends the requests; one that does as the environment says by default.
        page: the origin of the page that shows its jobs, without a slash at its end; None for AzureML's studio.
    """

    def __init__(
        self,
        workspace: WorkspaceId,
        credential: SignIn,
        cloud: Cloud = AZURE_PUBLIC,
        *,
        session: requests.Session | None = None,
        page: str | None = None,
    ) -> None:
        super().__init__(workspace, credential, cloud, session=session)
        self._page = page
        self._made: MLClient | None = None
        self._making = threading.Lock()

    def view_of(self, name: str, properties: Answer) -> JobView:
        """See :meth:`AzureRest.view_of`."""
        view = super().view_of(name, properties)
        if self._page is None:
            return view
        return dataclasses.replace(view, studio_url=f"{self._page}/ui/runs/{quote(name, safe='')}")

    def _make(self) -> MLClient:
        # Notices of experimental classes are addressed to azure-ai-ml's own users.
        logging.getLogger("azure.ai.ml").setLevel(logging.ERROR)
        place = self.workspace
        client: MLClient = ml_sdk().MLClient(
            self.credential,
            place.subscription_id,
            place.resource_group,
            place.name,
            show_progress=False,
            cloud=self.cloud.name,
            connection_timeout=_CONNECT_TIMEOUT,
            read_timeout=_ANSWER_TIMEOUT,
            # azure-core calls it for every request, and again for each repetition (CustomHookPolicy).
            raw_request_hook=self._before_request,
            raw_response_hook=_bound_wait,
            user_agent=PRODUCT,
        )
        return client

    def _before_request(self, request: Any) -> None:
        """Let the submission know that the request which makes the job leaves."""
        sent = request.http_request
        leaving = _LEAVING.get()
        if leaving is not None and sent.method == "PUT" and "/jobs/" in sent.url:
            leaving.commit()

    @property
    def client(self) -> Any:
        """The client of azure-ai-ml; what it raises is to be handed to :func:`translate`."""
        with self._making:
            if self._made is None:
                self._made = self._make()
        return self._made

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        if job.runconfig is not None:
            return azure_v1.submit(self, job, submission)
        what = f"Submitting the job {job.name}"
        document = copy.deepcopy(dict(job.document))
        if job.code is not None:
            document["code"] = ensure_code(self, job.code, submission)
        assets: dict[int, str] = {}
        for place, files in job.folders.items():
            if id(files) not in assets:  # nodes of one folder share it
                assets[id(files)] = ensure_code(self, files, submission)
            mapping_at(document, place)["code"] = self._code_id(assets[id(files)])
        if (named := _NAMED_CODE.fullmatch(str(document.get("code")))) is not None:
            document["code"] = self._code_id(named[0])

        def create() -> None:
            with component_files(document, job.directory) as written:
                # A separate entity each time: azure-ai-ml changes what it submits.
                text = io.StringIO(yaml_text(written))
                entity = ml_sdk().load_job(source=text, relative_origin=str(job.directory / "job.yml"))
                self.client.jobs.create_or_update(entity)

        return self._make_job(
            create, job.name, lambda found: found.properties.get(Tag.FINGERPRINT) == job.fingerprint, what, submission
        )

    def _code_id(self, reference: str) -> str:
        """Return the resource id of a code asset, by which azure-ai-ml finds it.

        It takes the short form for a folder (``_resolve_arm_id_for_command_job``, 1.34.1).
        """
        named = _NAMED_CODE.fullmatch(reference)
        return reference if named is None else f"azureml:{self.workspace.path}/codes/{named[1]}/versions/{named[2]}"

    def _make_job(
        self,
        create: Callable[[], None],
        name: str,
        ours: Callable[[JobView], bool],
        what: str,
        submission: CancelToken,
    ) -> JobView:
        """Create the job *name*; one that is there must be *ours*."""

        def look() -> JobView | None:
            found = self.find(name)
            return found if found is not None and ours(found) else None

        _LEAVING.set(submission)
        try:
            return made(create, look, what, translate=translate)
        finally:
            _LEAVING.set(None)

    def copy_job(self, name: str, new: str, *, compute: str | None = None) -> JobView:
        """Submit a copy of the job *name* as *new*: same code, environment and inputs.

        Raises:
            InvalidError: there is a job named *new* or none named *name*, or it cannot be submitted again.
            ServiceError: the service refuses.
        """
        what = f"Submitting the job {name} again, as {new}"
        if self.find(new) is not None:
            raise InvalidError(f"There is a job named {new} already.", hint="Choose another name with --name.")
        if self.find(name) is None:
            raise no_job(self.tagged_jobs, name)
        self._copy(name, new, what, compute=compute)
        found = self.find(new)
        if found is None:
            raise ServiceError(f"{what}: AzureML accepted it, but does not show it.", transient=True)
        return found

    def _copy(
        self,
        name: str,
        new: str,
        what: str,
        *,
        compute: str | None = None,
        tags: Mapping[str, str] | None = None,
        checkpoints: str = "",
    ) -> None:
        """Submit the job *name* as *new*; with *tags* it stays in its group, and reads *checkpoints*."""
        try:
            with quiet():
                entity = self.client.jobs.get(name)
                group = {key: value for key, value in (entity.tags or {}).items() if key in (Tag.GROUP, Tag.SEQUENCE)}
                again(entity, name, new)
                if tags is not None:
                    entity.tags.update({**group, **tags})
                if checkpoints:
                    folder = ml_sdk().Input(type="uri_folder", mode="ro_mount", path=checkpoints)
                    # No public member of what azure-ai-ml 1.34.1 reads takes a further input (``_builders/command.py``, ``_to_job``).
                    entity._job_inputs[RESUME_INPUT] = folder
                if compute is not None:
                    entity.compute = compute.removeprefix("azureml:")
                self.client.jobs.create_or_update(entity)
        except Exception as error:
            raise translate(error, what) from error

    def resubmit(
        self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken, checkpoints: str = ""
    ) -> JobView:
        what = f"Submitting the job {name} again, as {new}"
        copy = partial(self._copy, name, new, what, tags=tags, checkpoints=checkpoints)
        return self._make_job(copy, new, lambda found: found.tags.get(Tag.RESUBMITTED) == name, what, submission)

    def identify_data(self, sources: Sequence[DataSource]) -> Sequence[DataIdentity]:

        return identify_data(self, sources)

    def identity(self, name: str, *, sdk: str = "v2", files: bool = False) -> Identity:

        if sdk == "v1":
            return read_run_identity(self, name)
        if name not in self._definitions and self.find(name) is None:
            raise ServiceError(f"The job {name} is not in the workspace.", hint="It may have been deleted.")
        return read_identity(self, name, self._definitions[name], files=files)

    def output_paths(self, name: str, output: str) -> Iterator[str]:

        data = DataWorkspace(self)
        where = data.locate(JobOutput(job=name, output=output, path=""))
        base = where.path.rstrip("/")
        for entry in data.storage(where.datastore).walk(base):
            if entry.name == base:
                yield base.rpartition("/")[2]
            elif entry.name.startswith(f"{base}/"):
                yield entry.name[len(base) + 1 :]

    def register(self, model: NewModel) -> ModelView:
        def create() -> None:
            entity = ml_sdk().entities.Model(
                name=model.name,
                version=model.version,
                path=model.path,
                type=model.type,
                description=model.description,
                tags=dict(model.tags),
                properties=dict(model.properties),
            )
            self.client.models.create_or_update(entity)

        def look() -> ModelView | None:
            for one in self.models(model.name):
                if one.version == model.version:
                    return one if is_same_model(one, model.tags) else None
            return None

        return made(create, look, f"Registering the model {model.name}", translate=translate)


def again(entity: Any, name: str, new: str) -> None:
    """Make a new job of one that was read: without the service's values and outputs.

    Args:
        entity: azure-ai-ml's job; it is changed.
        name: the old name.
        new: the new one.

    Raises:
        InvalidError: it is no command job.
    """
    if entity.type != "command":
        raise InvalidError(f"The job {name} is of type {entity.type}: only command jobs can be submitted again.")
    entity.name = new
    entity.tags = {key: value for key, value in (entity.tags or {}).items() if key not in (Tag.GROUP, Tag.SEQUENCE)}
    entity.tags[Tag.RESUBMITTED] = name
    entity.properties = {
        key: value for key, value in (entity.properties or {}).items() if not _SERVICES_OWN.match(key)
    }
    entity.services = None
    entity.outputs.pop("default", None)
    for output in entity.outputs.values():
        # The place of an output whose job does not name one; the old job's stays unchanged.
        if re.search(rf"/azureml/{re.escape(name)}/[^/]+/?$", str(getattr(output, "path", None) or "")):
            output.path = None
        if getattr(output, "version", None):
            output.version = None  # that version is registered; a new one takes the next number


def translate(error: Exception, what: str) -> AmlTrainError:
    """Return our error for whatever a call of the SDK raised.

    The SDK decodes answers with few checks, so that a wrong one can end in any type of error. One of ours is returned as it is: the SDK
    asks our sign-in for tokens.
    """
    if isinstance(error, AmlTrainError):
        return error
    if isinstance(error, _PutOffError):
        error = error.refusal
    from marshmallow.exceptions import ValidationError

    exceptions, known = ml_sdk().exceptions, core_sdk().exceptions
    if isinstance(error, known.ClientAuthenticationError):
        return ServiceError(f"{what}: sign-in failed: {brief(error.message)}", hint="Check the credential.")
    if isinstance(error, known.HttpResponseError):
        headers, said = getattr(error.response, "headers", None), brief(error.message)
        lost = isinstance(error, known.DecodeError)
        return refusal(what, error.status_code, said, headers=headers, trace=traced(error), lost=lost)
    if isinstance(error, exceptions.MlException):  # which is an AzureError as well
        if error.error_category == exceptions.ErrorCategory.SYSTEM_ERROR:
            return ServiceError(f"{what}: {brief(error.message)}")
        return InvalidError(f"{what}: azure-ai-ml refuses the job: {brief(error.message)}")
    if isinstance(error, ValidationError):
        return InvalidError(f"{what}: azure-ai-ml refuses the job: {brief(str(error))}")
    if isinstance(error, known.AzureError):
        why = f"{what}: AzureML could not be reached: {brief(error.message)}"
        return ServiceError(why, hint=REACH, transient=True)
    return unexpected(what, "azure-ai-ml", error, brief(str(error)))


def brief(text: object, limit: int = 1500) -> str:
    """Return a message of the SDK without decoration, cut to *limit* characters.

    Args:
        text: azure-ai-ml colours its own; parts of an answer are in it as they came.
        limit: characters.
    """
    return " ".join(clean(_COLOUR.sub("", str(text or "no reason given"))).split())[:limit]
