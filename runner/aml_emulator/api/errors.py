"""Errors as HTTP: a status, a code and a message, as Azure's clients read them."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aml_emulator.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError, NotSupportedError
from aml_emulator.store.database import is_disk_full

COMPONENT: Final = "managementfrontend"

OF_MANAGEMENT: Final = frozenset(
    {
        "AuthenticationFailed",
        "ExpiredAuthenticationToken",
        "InvalidAuthenticationToken",
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


def history_error(code: str, message: str | None) -> dict[str, Any]:
    """Return the inner part of an error of run history."""
    unset = ("severity", "messageFormat", "messageParameters", "referenceCode", "detailsUri", "target", "innerError")
    # azureml-core cannot print an error without details.
    return {**dict.fromkeys((*unset, "additionalInfo")), "code": code, "message": message, "details": []}


def service_body(error: ServiceError, *, location: str, operation: str, request: str) -> dict[str, Any]:
    """Return the body of an error as run history and the other services answer it."""
    return {
        "error": {
            **history_error(error.code, error.message),
            "messageFormat": error.message,
            "messageParameters": {},
            "innerError": _chain(error.inner),
            "debugInfo": None,
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


logger = logging.getLogger(__name__)

STATUS: Final[Mapping[type[DomainError], int]] = {
    InvalidError: 400,
    NotFoundError: 404,
    ConflictError: 409,
    NotSupportedError: 501,
}
"""The status of each of the domain's errors."""

MLFLOW_CODES: Final[Mapping[type[DomainError], str]] = {
    InvalidError: "INVALID_PARAMETER_VALUE",
    NotFoundError: "RESOURCE_DOES_NOT_EXIST",
    ConflictError: "RESOURCE_ALREADY_EXISTS",
}
"""MLflow's words for the domain's errors: https://mlflow.org/docs/latest/rest-api.html."""

FULL: Final = 507
"""The status of a full disk: Azure's clients do not retry it, which would not help."""


class ServiceError(Exception):
    """A request that is answered with an error.

    Args:
        code: Azure's word for the cause, for example ``UserError``.
        message: what is wrong, for the user of the client.
        inner: the chain of narrower codes that AzureML nests, outermost first; may be empty.
        details: narrower errors, each with code and message.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        inner: tuple[str, ...] = (),
        details: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.inner = inner
        self.details = details

    def body(self) -> dict[str, Any]:
        """Return the JSON body: ``{"error": {"code", "message", ...}}``."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return {"error": {**error, "innerError": _chain(self.inner)} if self.inner else error}


class MlflowError(ServiceError):
    """An error of the MLflow interface, whose body has ``error_code`` and ``message``.

    Codes are those of https://mlflow.org/docs/latest/rest-api.html, for example ``RESOURCE_DOES_NOT_EXIST``.
    """

    def body(self) -> dict[str, Any]:
        return {"error_code": self.code, "message": self.message}


def service_error(error: DomainError) -> ServiceError:
    """Return the answer to a request that the domain refuses."""
    return ServiceError(STATUS[type(error)], error.code, error.message, inner=error.reasons, details=error.details)


def mlflow_error(error: DomainError) -> ServiceError:
    """Return the answer to a request of MLflow that the domain refuses."""
    return MlflowError(STATUS[type(error)], MLFLOW_CODES.get(type(error), error.code), error.message)


FULL_DISK: Final = "The local AzureML cannot store anything: the disk is full."


def state_error(error: Exception) -> ServiceError | None:
    """Return the answer where the disk is full, None for another cause."""
    return ServiceError(FULL, "InsufficientStorage", FULL_DISK) if is_disk_full(error) else None


def cannot_open(workspace: str, error: Exception) -> ServiceError:
    """Return the answer to every request for a workspace whose state cannot be used."""
    said = f"The workspace '{workspace}' cannot be opened."
    if is_disk_full(error):
        return ServiceError(FULL, "InsufficientStorage", f"{said} {FULL_DISK}")
    if isinstance(error, sqlite3.Error | ValueError):
        # The state of another version, or a file that does not hold what it should.
        remedy = f"delete it: aml-train emulator workspace delete --force {workspace}"
        return ServiceError(500, "StateDamaged", f"{said} {error}. Restore the data folder from a copy, or {remedy}.")
    return ServiceError(500, "InternalServerError", f"{said} The log of the local AzureML says how.")


def admin_answer(handler: Callable[[], tuple[int, dict[str, Any]]], what: str) -> tuple[int, dict[str, Any]]:
    """Return an answer of the admin interface; errors as status and message.

    Args:
        what: the request, for the log.
    """
    try:
        return handler()
    except DomainError as error:
        return STATUS[type(error)], {"error": error.message}
    except ServiceError as error:
        return error.status, {"error": error.message}
    except Exception as error:
        # The boundary of the admin interface: logged whole, answered in short.
        logger.exception("%s failed", what)
        damage = state_error(error)
        if damage is not None:
            return damage.status, {"error": damage.message}
        return 500, {"error": f"{type(error).__name__}; the log says more"}


def resource_not_found(resource: str) -> ServiceError:
    """Return ARM's error for a resource that does not exist, named ``type/name``."""
    return ServiceError(404, "ResourceNotFound", f"The Resource '{resource}' was not found.")


def error_code(body: Any) -> str:
    """Return the code in the body of an error, empty if it has none."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    return str((error.get("code") if isinstance(error, dict) else None) or body.get("error_code") or error or "")
