"""Requests, routes and responses between Starlette and the handlers.

A handler is an ordinary function that takes a `Call` and returns a `Reply` (or what JSON can hold). It runs in a worker
thread, so that it may wait for the database or for Blob storage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.datastructures import Headers, QueryParams

from aml_emulator.api.errors import MlflowError
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError
from aml_emulator.identity.tokens import Principal
from aml_emulator.schema import BodyError, Fields, Shape, check, read_json

WORKSPACE = "/subscriptions/{sub}/resourceGroups/{rg}/providers/Microsoft.MachineLearningServices/workspaces/{ws}"
"""The meaning of ``{WS}`` in a route's path."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request.

    Attributes:
        params: the parts of the path that the route names.
        principal: who calls; None on routes that are open to anybody.
        from_job: whether the connection comes from a job's network.
    """

    method: str
    host: str
    path: str
    params: Mapping[str, str]
    query: QueryParams
    headers: Headers
    body: bytes
    principal: Principal | None
    from_job: bool = False

    def json(self, shape: Fields, *, not_finite: bool = False) -> dict[str, Any]:
        """Return the body as a JSON object with fields of these types, or an empty one.

        Raises:
            ServiceError: 400 for something else.
        """
        value: dict[str, Any] = self.value(shape, {}, not_finite=not_finite)
        return value

    def value(self, shape: Shape, default: Any, *, not_finite: bool = False) -> Any:
        """Return the body, which is of that type; *default* stands for an empty one.

        Args:
            default: what an empty body means.
            not_finite: whether NaN and infinite numbers may be in it.

        Raises:
            ServiceError: 400 for another type.
        """
        try:
            value = read_json(self.body, not_finite=not_finite) if self.body else default
            check(shape, value)
        except BodyError as error:
            raise self._refused(str(error)) from error
        return value

    def _refused(self, message: str) -> Exception:
        if self.path.startswith("/mlflow/"):
            return MlflowError(400, "INVALID_PARAMETER_VALUE", message)
        return InvalidError(message)

    def option(self, name: str) -> str:
        """Return a query parameter, its name in any case; empty if there is none."""
        return next((value for key, value in self.query.items() if key.lower() == name.lower()), "")

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 1_000_000) -> int:
        """Return a query parameter as an integer from *low* to *high*, or *default*.

        Raises:
            ServiceError: it is not an integer.
        """
        text = self.query.get(name)
        try:
            return max(low, min(high, int(text))) if text else default
        except ValueError as error:
            raise InvalidError(f"The query parameter '{name}' is not an integer: {text!r}") from error


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer: a status, headers, and a value for JSON or *data*."""

    status: int = 200
    value: Any = None
    data: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def media_type(self) -> str:
        """The body's media type."""
        return "application/json; charset=utf-8" if self.data is None else "application/octet-stream"

    def encoded(self) -> bytes:
        """Return the body's bytes."""
        if self.data is not None:
            return self.data
        if self.value is None:
            return b""
        return json.dumps(self.value, allow_nan=False, separators=(",", ":")).encode("utf-8")


Handler = Callable[[Call], Any]


@dataclass(frozen=True)
class Route:
    """One operation.

    Attributes:
        path: static segments, compared without regard to case, ``{name}`` for any one segment, and at the end ``{name*}``
            for one or more, whose slashes a client left as they are.
        open: whether it is answered without a token.
    """

    method: str
    path: str
    handler: Handler
    open: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path, with ``{WS}`` written out."""
        return tuple(self.path.replace("{WS}", WORKSPACE).strip("/").split("/"))


class Answers:
    """Handlers of requests about one kind of thing in a workspace."""

    def __init__(self, context: Context) -> None:
        self._context = context


A = TypeVar("A", bound=Answers)


def in_transaction(handler: Callable[[A, Call], Any]) -> Callable[[A, Call], Any]:
    """Run a handler as one transaction, which an error undoes.

    Nothing changes between its reads and its writes.
    """

    @wraps(handler)
    def whole(answers: A, call: Call) -> Any:
        with answers._context.store.transaction():
            return handler(answers, call)

    return whole


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._routes: dict[tuple[str, int], list[tuple[tuple[str, ...], Route]]] = {}
        self._open_ended: list[tuple[tuple[str, ...], Route]] = []
        for route in self.routes:
            parts = tuple(part if part.startswith("{") else part.lower() for part in route.segments)
            if parts[-1].endswith("*}"):
                self._open_ended.append((parts, route))
            else:
                self._routes.setdefault((route.method, len(parts)), []).append((parts, route))

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]] | None:
        """Return the first matching route with its named segments decoded, or None.

        Args:
            raw_path: the path as sent, percent-encoded.
        """
        given = raw_path.strip("/").split("/")
        for parts, route in self._routes.get((method, len(given)), ()):
            params = _params(parts, given)
            if params is not None:
                return route, params
        for parts, route in self._open_ended:
            head, tail = given[: len(parts) - 1], given[len(parts) - 1 :]
            params = _params(parts[:-1], head) if tail and route.method == method else None
            if params is not None:
                return route, {**params, parts[-1][1:-2]: "/".join(map(unquote, tail))}
        return None


def _params(parts: Sequence[str], given: Sequence[str]) -> dict[str, str] | None:
    """Return the values of named segments; None where the path is another."""
    params = {}
    for part, segment in zip(parts, given, strict=True):
        if part.startswith("{"):
            params[part[1:-1]] = unquote(segment)
        elif part != segment.lower():
            return None
    return params
