"""Bodies of errors, as Azure Resource Manager and AzureML's services send them.

``tests/contracts/recorded`` has the recordings. Resource Manager's own refusals have a code and a message alone; AzureML's
answers behind it add who refused (``additionalInfo``), with the chain of narrower codes in ``InnerError``. Run history
and the other services answer with the fields of azureml-core's ``ErrorResponse``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aml_emulator.api.errors import HistoryError, ServiceError

COMPONENT: Final = "managementfrontend"

OF_MANAGEMENT: Final = frozenset(
    {
        "AuthenticationFailed",
        "ExpiredAuthenticationToken",
        "InvalidAuthenticationToken",
        "NoRegisteredProviderFound",
        "ResourceGroupNotFound",
        "ResourceNotFound",
        "SubscriptionNotFound",
    }
)
"""Codes of Resource Manager itself."""


def management_body(
    error: ServiceError, *, location: str, operation: str, request: str, details: tuple[Mapping[str, str], ...] = ()
) -> dict[str, Any]:
    """Return the body of an error as Azure Resource Manager answers it.

    Args:
        operation: the id of the operation, 32 hexadecimal digits.
        request: the id of the request, 16 hexadecimal digits.
        details: codes and messages of narrower errors.
    """
    shown: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.code in OF_MANAGEMENT:
        return {"error": shown}
    values: dict[str, Any] = {
        "ComponentName": COMPONENT,
        "Correlation": {"operation": operation, "request": request},
        "Environment": location,
        "Location": location,
        "Time": _now(),
    }
    if error.inner:
        values["InnerError"] = _chain(error.inner)
    shown["details"] = [{**one, "details": [], "additionalInfo": []} for one in details]
    shown["additionalInfo"] = [{"type": name, "info": {"value": value}} for name, value in values.items()]
    return {"error": shown}


def service_body(error: ServiceError, *, location: str, operation: str, request: str) -> dict[str, Any]:
    """Return the body of an error as run history and the other services answer it."""
    return {
        "error": {
            "code": error.code,
            "severity": None,
            "message": error.message,
            # A service behind Resource Manager leaves both open.
            "messageFormat": None if isinstance(error, HistoryError) else error.message,
            "messageParameters": None if isinstance(error, HistoryError) else {},
            "referenceCode": None,
            "detailsUri": None,
            "target": None,
            # azureml-core cannot print an error without details.
            "details": [],
            "innerError": _chain(error.inner),
            "debugInfo": None,
            "additionalInfo": None,
        },
        "correlation": {"operation": operation, "request": request},
        "environment": location,
        "location": location,
        "time": _now(),
        "componentName": "aml-emulator",
        "statusCode": error.status,
    }


def _chain(codes: tuple[str, ...]) -> dict[str, Any] | None:
    nested: dict[str, Any] | None = None
    for code in reversed(codes):
        nested = {"code": code, "innerError": nested}
    return nested


def _now() -> str:
    return datetime.now(UTC).isoformat()
