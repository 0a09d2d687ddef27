"""Submission by azureml-core: a run configuration with our image.

A run is a job: what comes after the submission (status, logs, metrics, cancelling, registering) is the same for both SDKs. The classes and
what they send are those of azureml-core 1.61.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import requests
import yaml

from aml_train.azure.http import HINTS
from aml_train.azure.sdk import made, refusal, unexpected
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import REACH, UndecodableError, clean, decode, traced
from aml_train.core.errors import AmlTrainError, InvalidError, RefusedError, ServiceError
from aml_train.core.tags import Tag
from aml_train.core.temporary import temporary_folder
from aml_train.core.threads import CancelToken
from aml_train.core.version import __version__
from aml_train.jobs.spec import JobSpec, run_configuration
from aml_train.jobs.workspace import JobView

#: Of ``_base_sdk_common/common.py``, ``resource_error_handling``, for a 404.
_NO_WORKSPACE: Final = "Workspace not found."
_TRANSIENT: Final = re.compile(
    r"\b(?:408|429|500|502|503|504)\b|timed out|Max retries exceeded|Connection aborted", re.I
)


def _load() -> None:
    """Import azureml-core, which takes about a second.

    :mod:`aml_train.pipeline.sdk` has ensured that it is installed.
    """
    import azureml.core  # noqa: F401

    # Notices of what is deprecated are addressed to azureml-core's own users.
    logging.getLogger("azureml").setLevel(logging.ERROR)
    from azureml._base_sdk_common import user_agent

    if "aml-train" not in user_agent.get_user_agent():
        user_agent.append("aml-train", __version__)


_WORKING_DIRECTORY: Final = threading.Lock()


def submit(rest: AzureRest, job: JobSpec, submission: CancelToken) -> JobView:
    """Submit a run configuration as the run *job*, as ``Workspace.submit`` demands.

    Its code is copied first, so that exactly the files are sent that the job's name stands for.
    """
    _load()
    what = f"Submitting the run {job.name}"
    tags = _texts(job.document["tags"])
    properties = _texts(job.document["properties"])
    with temporary_folder("code") as place:
        folder = place / "code"
        if job.code is not None:
            job.code.copy_to(folder)
        else:
            folder.mkdir()
        file = place / "run.yml"
        file.write_text(yaml.safe_dump(run_configuration(job), sort_keys=False, allow_unicode=True), encoding="utf-8")

        def create() -> None:
            # The request that makes the run follows the upload within one call of azureml-core.
            submission.commit()
            found = rest.find(job.name)
            if found is not None and _other(found, job):
                # The service would take it for the one that is there, and azureml-core give it our tags.
                raise RefusedError(f"{what}: there is another job of that name.", hint="Choose another name.")
            # azureml-core changes the process's working directory while it packs the code, and back to the one before
            # (``azureml/_base_sdk_common/utils.py``, 1.61): two at once could leave the process in a removed folder.
            with _WORKING_DIRECTORY:
                _submit(rest, job, file, folder)

        def look() -> JobView | None:
            found = rest.find(job.name)
            if found is None or _other(found, job):
                return None
            if not (tags.items() <= found.tags.items() and properties.items() <= found.properties.items()):
                # azureml-core sends both after the run was made: the answer to either may be lost.
                rest.tag(job.name, tags, properties=properties)
                found = rest.find(job.name)
            return found

        return made(create, look, what, translate=translate)


def _other(found: JobView, job: JobSpec) -> bool:
    """Return whether the run has other content; late properties do not count."""
    return found.properties.get(Tag.FINGERPRINT, job.fingerprint) != job.fingerprint


def _submit(rest: AzureRest, job: JobSpec, file: Path, folder: Path) -> None:
    from azureml.core import Environment, Experiment, RunConfiguration, ScriptRunConfig, Workspace
    from azureml.core.authentication import TokenAuthentication

    def token(_audience: str) -> str:
        return rest.credential.token(rest.cloud.scope)

    place = rest.workspace
    workspace = Workspace.get(
        name=place.name,
        subscription_id=place.subscription_id,
        resource_group=place.resource_group,
        auth=TokenAuthentication(token, cloud=rest.cloud.name),
        cloud=rest.cloud.name,
    )
    config = RunConfiguration.load(str(file))
    given = (job.runconfig or {}).get("environment") or {}
    if not job.images and given.get("name") and not (given.get("docker") or given.get("python")):
        config.environment = Environment.get(workspace, given["name"], given.get("version"))
    elif job.images:
        _register(workspace, config.environment)
    document = job.document
    run = Experiment(workspace, str(document.get("experiment_name") or "Default")).submit(
        ScriptRunConfig(source_directory=str(folder), run_config=config),
        tags=_texts(document["tags"]),
        run_id=job.name,
        credential_passthrough=bool(config.credential_passthrough),
    )
    if document.get("display_name"):
        run.display_name = str(document["display_name"])
    run.add_properties(_texts(document["properties"]))


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in given.items()}


def _register(workspace: Any, environment: Any) -> None:
    """Register the environment, unless its last version is the same image already."""
    try:
        found = type(environment).get(workspace, environment.name)
    except Exception as error:
        if "not found" not in str(error).lower():
            raise
        found = None
    if found is None or found.docker.base_image != environment.docker.base_image:
        environment.register(workspace)


def translate(error: Exception, what: str) -> AmlTrainError:
    """Return our error for an error of azureml-core; one of ours as it is."""
    if isinstance(error, AmlTrainError):
        return error
    from azureml.exceptions import AuthenticationException, AzureMLException
    from msrest.exceptions import ClientException, HttpOperationError

    text = clean(str(getattr(error, "message", None) or error))
    message = " ".join(text.split())[:1500]
    if isinstance(error, requests.RequestException):
        return ServiceError(
            f"{what}: AzureML could not be reached: {type(error).__name__}", hint=REACH, transient=True
        )
    if isinstance(error, AuthenticationException):
        return ServiceError(f"{what}: sign-in failed: {message}", hint="Check the credential.")
    if isinstance(error, HttpOperationError):
        return refusal(what, getattr(error.response, "status_code", None), message, trace=traced(error))
    if isinstance(error, ClientException):
        return ServiceError(f"{what}: AzureML could not be reached: {message}", transient=True)
    if isinstance(error, AzureMLException):
        if (answer := _answer(text)) is not None:
            status, said = answer
            return refusal(what, status, said[:1500])
        if message == _NO_WORKSPACE:
            return ServiceError(f"{what}: {message}", hint=HINTS[404])
        if _TRANSIENT.search(message):
            return ServiceError(f"{what}: {message}", transient=True)
        return InvalidError(f"{what}: azureml-core refuses the run: {message}")
    return unexpected(what, "azureml-core", error, message)


def _answer(text: str) -> tuple[int, str] | None:
    """Return status and explanation of the answer in azureml-core's message, or None.

    ``_base_sdk_common/common.py``, ``get_http_exception_response_string``, writes them as JSON.
    """
    try:
        found = decode(text.encode(errors="replace"))
    except UndecodableError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("status_code"), int):
        return None
    details = found.get("error_details")
    error = details.get("error") if isinstance(details, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return found["status_code"], " ".join(clean(str(said or details or "no reason given")).split())
