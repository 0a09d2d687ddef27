"""The registry under its Azure name: TLS and the sign-in of Azure Container Registry in front of a plain registry.

Tokens as in https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md: an access token of Entra ID is exchanged for a refresh
token (``/oauth2/exchange``), which is exchanged for access tokens that name repositories and actions (``/oauth2/token``). The
engine reaches the same registry by its loopback port, without a sign-in.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aml_emulator.proxy import BadHeadError, Head, join, parse_head
from aml_emulator.tokens import REGISTRY_ACCESS_SECONDS, RegistryAccess, TokenError, Tokens
from aml_emulator.upstream import connect

logger = logging.getLogger(__name__)

TOKEN_USER = "00000000-0000-0000-0000-000000000000"  # noqa: S105 - a user's name
"""Who signs in with a refresh token as the password."""

HEAD_TIMEOUT_SECONDS = 75.0
MAX_FORM_BYTES = 64 * 1024
_REPOSITORY = re.compile(r"/v2/(.+)/(?:manifests|blobs|tags|referrers)/")
_SCOPE = re.compile(r"repository:([a-z0-9._/-]+):([a-z,*]+)")
_ACTIONS = {"GET": "pull", "HEAD": "pull", "DELETE": "delete"}

Answer = tuple[int, dict[str, Any], dict[str, str]]
"""Status, JSON, headers."""


class RegistryFront:
    """Answers for the registry's host: one request on each connection, which keeps the check and its request together.

    Args:
        port: the registry's port on 127.0.0.1.
        login_server: the registry's Azure name.
        tokens: issues and checks.
    """

    def __init__(self, port: int, *, login_server: str, tokens: Tokens) -> None:
        self._port = port
        self._host = login_server
        self._tokens = tokens

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one decrypted connection."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
                head = parse_head(await reader.readuntil(b"\r\n\r\n"))
                path = urlsplit(head.target).path
                form = await _form(head, reader) if path.startswith("/oauth2/") else {}
            answer = self.answer(head, form)
            if answer is None:
                await self._forward(head, reader, writer)
            else:
                await _send(writer, *answer, with_body=head.method != "HEAD")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadHeadError) as error:
            logger.debug("a registry connection without a request: %r", error)
        except OSError as error:
            logger.warning("a registry connection broke off: %s", error)
        finally:
            writer.close()

    def answer(self, head: Head, form: Mapping[str, str]) -> Answer | None:
        """Return the answer to a request, or None where it is the registry's to answer.

        Args:
            head: the request's head.
            form: the fields of the body of a request for tokens.
        """
        path = urlsplit(head.target).path
        try:
            if path == "/oauth2/exchange" and head.method == "POST":
                return self._exchange(form)
            if path == "/oauth2/token" and head.method in ("GET", "POST"):
                return self._token(head, form)
        except TokenError as error:
            return _refused(401, "UNAUTHORIZED", error.message)
        if path != "/v2" and not path.startswith("/v2/"):
            return _refused(501, "UNSUPPORTED", f"The local AzureML's registry does not support {head.method} {path}")
        needed = needed_access(head.method, head.target)
        try:
            granted = self._tokens.verify_registry_access(_bearer(head))
        except TokenError as error:
            return self._challenge(error.message, needed)
        for one in needed:
            if not any(one.within(other) for other in granted):
                return self._challenge(f"The token does not allow {one.text}.", needed)
        return None

    def _exchange(self, form: Mapping[str, str]) -> Answer:
        if form.get("grant_type") != "access_token":
            return _refused(400, "UNSUPPORTED", "The grant_type must be access_token.")
        if form.get("service") != self._host:
            return _refused(404, "NAME_UNKNOWN", f"There is no registry {form.get('service', '')}.")
        self._tokens.verify_for_registry(form.get("access_token", ""))
        return 200, {"refresh_token": self._tokens.issue_registry_refresh()}, {}

    def _token(self, head: Head, form: Mapping[str, str]) -> Answer:
        """Issue an access token: with a refresh token in the form, or as the password of :data:`TOKEN_USER`."""
        query = parse_qs(urlsplit(head.target).query)
        scopes = form.get("scope", "").split() if head.method == "POST" else query.get("scope", [])
        refresh = form.get("refresh_token", "") if head.method == "POST" else _password(head)
        self._tokens.verify_registry_refresh(refresh)
        access = []
        for scope in scopes:
            found = _SCOPE.fullmatch(scope)
            if found is None:
                return _refused(400, "UNSUPPORTED", "A scope must be such as repository:NAME:pull.")
            access.append(RegistryAccess(repository=found[1], actions=frozenset(found[2].split(","))))
        token = self._tokens.issue_registry_access(access)
        return 200, {"access_token": token, "expires_in": REGISTRY_ACCESS_SECONDS}, {}

    def _challenge(self, message: str, needed: list[RegistryAccess]) -> Answer:
        scope = " ".join(one.text for one in needed)
        challenge = f'Bearer realm="https://{self._host}/oauth2/token",service="{self._host}"'
        challenge += f',scope="{scope}"' if scope else ""
        status, value, _ = _refused(401, "UNAUTHORIZED", message)
        return status, value, {"WWW-Authenticate": challenge, "Docker-Distribution-Api-Version": "registry/2.0"}

    async def _forward(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams = await connect("127.0.0.1", self._port)
        dropped = ("connection", "keep-alive", "authorization")
        lines = [f"{head.method} {head.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in head.headers if name.lower() not in dropped]
        lines += ["X-Forwarded-Proto: https", "Connection: close", "", ""]
        streams[1].write("\r\n".join(lines).encode("latin-1"))
        await join((reader, writer), streams)


def needed_access(method: str, target: str) -> list[RegistryAccess]:
    """Return what a request of the registry's interface needs: nothing for ``/v2/`` itself, two things for a mount."""
    parts = urlsplit(target)
    found = _REPOSITORY.match(parts.path)
    if found is None:
        return []
    needed = [RegistryAccess(repository=found[1], actions=frozenset({_ACTIONS.get(method, "push")}))]
    sources = parse_qs(parts.query).get("from", [])[:1]
    return needed + [RegistryAccess(repository=source, actions=frozenset({"pull"})) for source in sources]


def _header(head: Head, name: str) -> str:
    return next((value for key, value in head.headers if key.lower() == name), "")


def _bearer(head: Head) -> str:
    scheme, _, token = _header(head, "authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _password(head: Head) -> str:
    """Return the password of basic authentication as :data:`TOKEN_USER`, or nothing."""
    scheme, _, value = _header(head, "authorization").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(value).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return password if user == TOKEN_USER else ""


async def _form(head: Head, reader: asyncio.StreamReader) -> dict[str, str]:
    length = _header(head, "content-length") or "0"
    if not length.isdecimal() or int(length) > MAX_FORM_BYTES:
        raise BadHeadError("not the length of a form")
    body = await reader.readexactly(int(length))
    return {key: values[-1] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _refused(status: int, code: str, message: str) -> Answer:
    return status, {"errors": [{"code": code, "message": message}]}, {}


async def _send(
    writer: asyncio.StreamWriter, status: int, value: dict[str, Any], headers: dict[str, str], *, with_body: bool
) -> None:
    body = json.dumps(value).encode()
    sent = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    head = f"HTTP/1.1 {status} Answer\r\n" + "".join(f"{name}: {text}\r\n" for name, text in sent.items())
    writer.write(f"{head}\r\n".encode("latin-1") + (body if with_body else b""))
    await writer.drain()
