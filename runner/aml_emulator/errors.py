"""Errors of the emulated service: a status, a code and a message, in the shape that Azure's clients read."""

from __future__ import annotations

from typing import Any


class ServiceError(Exception):
    """A request that is answered with an error.

    Args:
        status: the HTTP status.
        code: Azure's word for the cause, for example ``UserError``.
        message: what is wrong, for the user of the client.
        inner: the chain of narrower codes that AzureML nests, outermost first; may be empty.
    """

    def __init__(self, status: int, code: str, message: str, *, inner: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.inner = inner

    def body(self) -> dict[str, Any]:
        """Return the JSON body: ``{"error": {"code", "message", ...}}``."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        nested: dict[str, Any] | None = None
        for code in reversed(self.inner):
            nested = {"code": code, "innerError": nested} if nested else {"code": code}
        if nested:
            error["innerError"] = nested
        return {"error": error}


class NotSupportedError(ServiceError):
    """Something that AzureML can do and this emulator cannot: answered 501, logged and counted.

    Args:
        what: the operation, field or value, as the user would name it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            501,
            "NotImplemented",
            f"The local AzureML does not support {what}. See docs/emulator.md for what it does.",
        )
        self.what = what


def error_code(body: Any) -> str:
    """Return the code in the body of an error, empty where there is none."""
    if not isinstance(body, dict):
        return ""
    error = body.get("error")
    return str((error.get("code") if isinstance(error, dict) else None) or body.get("error_code") or error or "")


def not_found(what: str) -> ServiceError:
    """Return AzureML's error for an asset or run that is not there."""
    return ServiceError(404, "UserError", f"Not found: {what}", inner=("NotFound",))


def resource_not_found(resource: str) -> ServiceError:
    """Return Azure Resource Manager's error for a resource that is not there, named as ``type/name``."""
    return ServiceError(404, "ResourceNotFound", f"The Resource '{resource}' was not found.")


def bad_request(message: str) -> ServiceError:
    """Return AzureML's error for a request that the user has to change."""
    return ServiceError(400, "UserError", message, inner=("BadArgument",))


class MlflowError(ServiceError):
    """An error of the MLflow interface, whose body is flat: ``{"error_code", "message"}``.

    Codes are those of https://mlflow.org/docs/latest/rest-api.html, for example ``RESOURCE_DOES_NOT_EXIST``.
    """

    def body(self) -> dict[str, Any]:
        return {"error_code": self.code, "message": self.message}
