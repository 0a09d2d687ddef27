"""The services of the SDK v1 that the local AzureML does not have.

Their first requests are (azureml-pipeline-core 1.62, ``_AevaDataTypeProvider.ensure_default_datatypes``, which the
constructor of ``Pipeline`` calls; azureml-train-core 1.62, ``hyperdrive/_search.py``; azureml-core 1.62,
``_restclient/jasmine_client.py``)::

    GET  /pipelines/v1.0/subscriptions/…/workspaces/NAME/DataTypes
    POST /hyperdrive/v1.0/subscriptions/…/workspaces/NAME/experiments/NAME/runs
    POST /jasmine/v1.0/subscriptions/…/workspaces/NAME/…
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SERVICES: Final[Mapping[str, str]] = {
    "pipelines": (
        "pipelines of the SDK v1 (`Pipeline`, `PythonScriptStep` and other steps of azureml-pipeline-core)."
        " Submit a pipeline job of azure-ai-ml, which runs here"
    ),
    "hyperdrive": (
        "sweeps of the SDK v1 (`HyperDriveConfig` of azureml-train-core)."
        " Submit a sweep job of azure-ai-ml, which runs here"
    ),
    "jasmine": "automated machine learning of the SDK v1 (`AutoMLConfig` of azureml-train-automl)",
}


def other_service(path: str) -> str | None:
    """Return the description of the service that a path is of.

    None for a service that is here, or is no one's.
    """
    service, _, rest = path.lower().lstrip("/").partition("/")
    return _SERVICES.get(service) if rest.startswith("v1.") else None


def other_body(path: str, status: int, code: str, message: str) -> dict[str, Any]:
    """Return the members that the service's own client reads of an error.

    There are none for another path. Without them, clients show the status alone: the models ``ErrorResponse`` of
    azureml-pipeline-core 1.62 (``_restclients/aeva/models``) and of azureml-train-restclients-hyperdrive 1.62.
    """
    if path.lower().startswith("/pipelines/"):
        return {"Error": {"Code": code, "Message": message}}
    if path.lower().startswith("/hyperdrive/"):
        return {"code": status, "message": message}
    return {}
