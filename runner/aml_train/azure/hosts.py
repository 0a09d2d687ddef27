"""Which host answers for which service of a workspace's region. Pure.

Microsoft's REST guide documents the keys of the discovery document: ``api``, ``experimentation``, ``history``, ``hyperdrive``, ``labeling``,
``modelmanagement``, ``pipelines``, ``studiocoreservices`` (https://learn.microsoft.com/azure/machine-learning/how-to-manage-rest, "Get a list
of Azure Machine Learning workspaces"). There is none for MLflow: azureml-mlflow 1.62 takes the host of the workspace's ``mlFlowTrackingUri``, and
azureml-core 1.61 (``_restclient/service_context.py``) the one of ``api``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

Service = Literal["history", "mlflow"]

#: What is read of the discovery document.
KEYS: Final = ("api", "history")
_KEYS: Final[Mapping[Service, tuple[str, ...]]] = {"history": ("history", "api"), "mlflow": ("api", "history")}


def address_of(service: Service, discovered: Mapping[str, object], tracking_uri: object) -> str | None:
    """Return the address of a service, ``https://HOST``; None where nothing says it.

    Args:
        discovered: the discovery document; empty where there is none.
        tracking_uri: the workspace's ``mlFlowTrackingUri``.
    """
    named = [_https(discovered.get(key)) for key in _KEYS[service]]
    tracking = _host(tracking_uri)
    of_tracking = f"https://{tracking}" if tracking else None
    choices = [of_tracking, *named] if service == "mlflow" else [*named, of_tracking]
    return next((choice for choice in choices if choice), None)


def _https(value: object) -> str | None:
    """Return an address that a token may be sent to."""
    if not isinstance(value, str) or not value.lower().startswith("https://") or not _host(value):
        return None
    return value.rstrip("/")


def _host(value: object) -> str:
    try:
        return urlsplit(value).netloc if isinstance(value, str) else ""
    except ValueError:
        return ""
