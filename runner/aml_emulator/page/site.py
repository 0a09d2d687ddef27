"""The page's requests: refused, or answered with a document. Read-only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.datastructures import Headers, QueryParams

from aml_emulator.api.errors import ServiceError, service_error
from aml_emulator.api.routing import Call, Route, Router
from aml_emulator.context import Context
from aml_emulator.domain.errors import DomainError, NotFoundError
from aml_emulator.network.heads import Head, is_foreign
from aml_emulator.network.proxy import PAGE_PATH
from aml_emulator.page import view
from aml_emulator.page.compare import Comparison
from aml_emulator.page.listing import RunList
from aml_emulator.page.models import Models
from aml_emulator.page.runs import RunPages
from aml_emulator.page.view import Content, Document, hider
from aml_emulator.workspaces import Directory

BELOW = ".localhost"


class Sites:
    """Answers browsers. Each workspace's page has the addresses of the first one's.

    Args:
        directory: finds workspaces by name.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._sites: dict[str, Site] = {}

    async def serve(self, head: Head, writer: asyncio.StreamWriter) -> None:
        """Answer one request on its connection, which is closed afterwards."""
        name = workspace_of(head)
        try:
            found = None if name is None else await run_in_threadpool(self._directory.find, name)
        except ServiceError as error:
            await Site(self._directory.first.context).refuse(head, writer, error.status, error.message)
            return
        workspace = found or self._directory.first
        key = workspace.context.identity.workspace_id
        known = {identity.workspace_id for identity in self._directory.all()}
        self._sites = {one: site for one, site in self._sites.items() if one in known}
        if key not in self._sites:
            host = None if found is None or found is self._directory.first else f"{name}{BELOW}"
            self._sites[key] = Site(workspace.context, host=host)
        await self._sites[key].serve(head, writer)


def workspace_of(head: Head) -> str | None:
    """Return the workspace's name in lower case in the host, None if there is none."""
    name = head.host
    return name.removesuffix(BELOW) if name.endswith(BELOW) and "." not in name.removesuffix(BELOW) else None


logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HTML = "text/html; charset=utf-8"


class Site:
    """Answers what a browser asks for at ``/ui/``.

    Args:
        host: a further name that it answers as, besides loopback.
    """

    def __init__(self, context: Context, *, host: str | None = None) -> None:
        self._context = context
        self._names = (host,) if host else ()
        self._hide = hider(context.identity)
        self._templates: Environment | None = None
        runs, models = RunPages(context), Models(context)
        pages: tuple[tuple[str, Callable[[Call], Document | Content]], ...] = (
            ("", RunList(context).index),
            ("runs/{run}", runs.run),
            ("runs/{run}/log", runs.log),
            ("runs/{run}/log.txt", runs.log_text),
            ("runs/{run}/file", runs.file),
            ("models", models.names),
            ("models/{name}", models.versions),
            ("models/{name}/{version}", models.version),
            ("static/{file}", self._static),
            ("compare", Comparison(context).page),
        )
        self._router = Router(
            Route(method, f"{PAGE_PATH}{path}".rstrip("/"), handler) for path, handler in pages for method in METHODS
        )

    async def serve(self, head: Head, writer: asyncio.StreamWriter) -> None:
        """Answer one request on its connection, which is closed afterwards."""
        await self._send(head, writer, await run_in_threadpool(self.answer, head))

    async def refuse(self, head: Head, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        """Answer one request with an error; HTML."""
        await self._send(head, writer, self._failure(status, message))

    @staticmethod
    async def _send(head: Head, writer: asyncio.StreamWriter, content: Content) -> None:
        body = content.body
        headers = [*HEADERS, ("Content-Type", content.type), ("Cache-Control", content.cache)]
        length = len(body) if content.length is None and isinstance(body, bytes) else content.length
        if length is not None:
            headers.append(("Content-Length", str(length)))
        headers += [*content.headers, ("Connection", "close")]
        lines = [f"HTTP/1.1 {content.status} {HTTPStatus(content.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1", "replace"))
        if head.method != "HEAD":
            if isinstance(body, bytes):
                writer.write(body)
            else:
                async for chunk in iterate_in_threadpool(body):
                    writer.write(chunk)
                    await writer.drain()
        await writer.drain()

    def answer(self, head: Head) -> Content:
        """Return the answer to one request."""
        refused = refusal(head, self._names)
        if refused is not None:
            logger.warning("REFUSED: %s %s: %s", head.method, head.target.partition("?")[0], refused[1])
            allowed = (("Allow", ", ".join(METHODS)),) if refused[0] == HTTPStatus.METHOD_NOT_ALLOWED else ()
            return _text(refused[0], refused[1], *allowed)
        path, _, query = head.target.partition("?")
        if not path.startswith(PAGE_PATH):
            goal = f"{PAGE_PATH}static/icon.svg" if path == "/favicon.ico" else PAGE_PATH
            return _text(HTTPStatus.FOUND, "", ("Location", goal))
        try:
            return self._content(head, path, query)
        except DomainError as error:
            return self._failure(service_error(error).status, error.message)
        except Exception:
            # The boundary of the page: logged whole, answered in short.
            logger.exception("%s %s failed", head.method, path)
            return self._failure(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The page failed; the log of the emulator says how."
            )

    def _content(self, head: Head, path: str, query: str) -> Content:
        found = self._router.find(head.method, path)
        if found is None:
            raise NotFoundError(path, message="There is no such page.")
        route, params = found
        made: Document | Content = route.handler(
            Call(
                method=head.method,
                host="localhost",
                path=path,
                params=params,
                query=QueryParams(query),
                headers=Headers(),
                body=b"",
                principal=None,
            )
        )
        return self._render(made) if isinstance(made, Document) else self._without_secrets(made)

    def _without_secrets(self, content: Content) -> Content:
        """Return a text without secrets. Files that are downloaded stay as they are."""
        if not (isinstance(content.body, bytes) and content.shown):
            return content
        hidden = self._hide(content.body.decode("utf-8", "replace")).encode("utf-8")
        return replace(content, body=hidden)

    def _failure(self, status: int, message: str) -> Content:
        document = Document(
            template="error.html", title="Not to be shown", values={"message": message, "status": status}
        )
        return replace(self._render(document), status=status)

    def _render(self, document: Document) -> Content:
        values: dict[str, Any] = {
            "title": document.title,
            "section": document.section,
            "refresh": document.refresh,
            "workspace": self._context.identity.workspace,
            **document.values,
        }
        html = self._environment().get_template(document.template).render(values)
        return Content(type=HTML, body=self._hide(html).encode("utf-8"))

    def _environment(self) -> Environment:
        if self._templates is None:
            # On first use: a service whose page no one opens does not pay for it.

            made = Environment(
                loader=FileSystemLoader(FOLDER / "templates"),
                autoescape=True,
                undefined=StrictUndefined,
                trim_blocks=True,
                lstrip_blocks=True,
                auto_reload=False,
            )
            made.globals["link"] = view.link
            made.filters |= {"moment": view.moment, "size": view.size, "plain": view.plain}
            self._templates = made
        return self._templates

    def _static(self, call: Call) -> Content:
        name = call.params["file"]
        if name not in STATIC:
            raise NotFoundError(name, message="There is no such file.")
        return Content(type=STATIC[name], body=(FOLDER / "static" / name).read_bytes(), cache="max-age=60")


def _text(status: int, text: str, *headers: tuple[str, str]) -> Content:
    return Content(status=status, type="text/plain; charset=utf-8", body=f"{text}\n".encode(), headers=headers)


METHODS = ("GET", "HEAD")

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Sequence[tuple[str, str]] = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""Headers of every answer: nothing is loaded from elsewhere, and no site frames it."""


def refusal(head: Head, names: Collection[str] = ()) -> tuple[int, str] | None:
    """Return why a request is refused, as status and reason, or None.

    Args:
        names: the names that the page answers as besides loopback, in lower case.
    """
    if is_foreign(head, names=names, is_page=True):
        return 403, "This page answers as localhost, 127.0.0.1 or [::1] only, and no other pages."
    if head.method not in METHODS:
        return 405, "This page is for reading: GET and HEAD only."
    return None
