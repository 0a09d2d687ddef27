"""The registry under its Azure name: TLS, sign-in and the interface of ACR.

Tokens as in https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md: an access token of Entra ID is exchanged for a refresh
token (``/oauth2/exchange``), which is exchanged for access tokens that name repositories and actions (``/oauth2/token``). The
registry's admin user signs in with name and password. The engine reaches the same registry by its loopback port, without a
sign-in and without locks; or, if the front has a separate port, through the front like other clients.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import json
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from aml_emulator.identity.roles import Roles
from aml_emulator.identity.tokens import RegistryAccess, TokenError, Tokens
from aml_emulator.network.fault_injection import linger
from aml_emulator.network.heads import NO_HEAD, BadHeadError, Head, parse_head, read_target, split_target
from aml_emulator.network.proxy import join_streams
from aml_emulator.network.upstream import connect
from aml_emulator.reading import whole
from aml_emulator.registry.acr import AcrInterface, Answer, Asked, plain_target, read_request, read_scope, refused

logger = logging.getLogger(__name__)

TOKEN_USER = "00000000-0000-0000-0000-000000000000"  # noqa: S105 - a user's name
"""Who signs in with a refresh token as the password."""

HEAD_TIMEOUT_SECONDS = 75.0
MAX_FORM_BYTES = 64 * 1024
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""The registry's own bound of a manifest."""

_DIGEST = re.compile(r"sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})")


class RegistryFront:
    """Answers for the registry's host, one request on each connection.

    A second request would pass unchecked.

    Args:
        port: the registry's port on 127.0.0.1.
        login_server: the registry's Azure name.
        acr: answers for Azure's own interface, and knows what is locked.
        roles: bound what the tokens of the service principal allow; None allows everything.
    """

    def __init__(
        self, port: int, *, login_server: str, tokens: Tokens, acr: AcrInterface, roles: Roles | None = None
    ) -> None:
        self._port = port
        self._roles = roles or Roles()
        self._host = login_server
        self._tokens = tokens
        self._acr = acr

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one decrypted connection."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
                head = parse_head(await reader.readuntil(b"\r\n\r\n"))
                own = split_target(head.target)[0].startswith(("/oauth2/", "/acr/"))
                body = await _small_body(head, reader) if own else b""
            answer = await asyncio.to_thread(self.answer, head, body)
            if answer is None:
                await self._forward(head, reader, writer)
            else:
                await _send(writer, *answer, with_body=head.method != "HEAD")
                if not own and head.method in ("PUT", "PATCH", "POST"):
                    await linger(reader)
        except NO_HEAD as error:
            logger.debug("a registry connection without a request: %r", error)
        except OSError as error:
            logger.warning("a registry connection was interrupted: %s", error)
        finally:
            writer.close()

    def answer(self, head: Head, body: bytes = b"") -> Answer | None:
        """Return the answer to a request, or None where it is the registry's to answer.

        Args:
            body: the body of a request to ``/oauth2`` or ``/acr``.
        """
        asked = read_request(head.method, head.target)
        form = {key: values[-1] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}
        try:
            if asked.path == "/oauth2/exchange" and head.method == "POST":
                return self._exchange(form)
            if asked.path == "/oauth2/token" and head.method in ("GET", "POST"):
                return self._token(head, form)
        except TokenError as error:
            return refused(
                401,
                "UNAUTHORIZED",
                f"authentication required, visit https://aka.ms/acr/authorization: {error.message}",
            )
        if not asked.interface:
            return refused(
                404, "UNSUPPORTED", f"The local AzureML's registry does not support {head.method} {asked.path}"
            )
        return self._check(head, asked) or self._answer(asked, body)

    def _answer(self, asked: Asked, body: bytes) -> Answer | None:
        """Answer a request whose token was found good."""
        if asked.interface == "acr":
            return self._acr.answer(asked, body)
        refusal = self._acr.forbidden(asked)
        if refusal is None and asked.kind == "referrers" and asked.method in ("GET", "HEAD"):
            return self._acr.referrers(asked)
        return refusal

    def _check(self, head: Head, asked: Asked) -> Answer | None:
        """Return the challenge to a request whose token does not allow it, or None."""
        scheme, _, value = (head.header("authorization") or "").partition(" ")
        if scheme.lower() == "basic":
            try:
                self._verify_basic(*_user_and_password(head))
            except TokenError as error:
                return self._challenge(head, asked, error.message, "invalid_token")
            if not self._tokens.is_registry_admin(*_user_and_password(head)):
                for one in asked.needed:
                    if not one.within(self._within_roles(one)):
                        text = f"The roles do not allow {one.text}."
                        return self._challenge(head, asked, text, "insufficient_scope")
            return None
        if scheme.lower() != "bearer":
            return self._challenge(head, asked, "authentication required, visit https://aka.ms/acr/authorization", "")
        try:
            granted = self._tokens.verify_registry_access(value.strip())
        except TokenError as error:
            return self._challenge(head, asked, error.message, "invalid_token")
        for one in asked.needed:
            if not any(one.within(other) for other in granted):
                return self._challenge(head, asked, f"The token does not allow {one.text}.", "insufficient_scope")
        return None

    def _exchange(self, form: Mapping[str, str]) -> Answer:
        if form.get("grant_type") not in ("access_token", "access_token_refresh_token"):
            return refused(400, "UNSUPPORTED", "The grant_type must be access_token.")
        if form.get("service") != self._host:
            return refused(404, "NAME_UNKNOWN", f"There is no registry {form.get('service', '')}.")
        self._tokens.verify_for_registry(form.get("access_token", ""))
        return 200, {"refresh_token": self._tokens.issue_registry_refresh()}, {}

    def _token(self, head: Head, form: Mapping[str, str]) -> Answer:
        """Issue an access token, for a refresh token or for user and password."""
        query = parse_qs(split_target(head.target)[1])
        posted = head.method == "POST"
        admin = self._tokens.is_registry_admin(
            *((form.get("username", ""), form.get("password", "")) if posted else _user_and_password(head))
        )
        service = form.get("service") if posted else query.get("service", [""])[0]
        if service != self._host:
            raise TokenError("InvalidAuthenticationToken", f"The service must be {self._host}.")
        if not posted:
            self._verify_basic(*_user_and_password(head))
        elif form.get("grant_type", "refresh_token") == "refresh_token":
            self._tokens.verify_registry_refresh(form.get("refresh_token", ""))
        elif form["grant_type"] == "password":
            self._verify_basic(form.get("username", ""), form.get("password", ""))
        else:
            return refused(400, "UNSUPPORTED", "The grant_type must be refresh_token or password.")
        access: list[RegistryAccess] = []
        for scope in form.get("scope", "").split() if posted else " ".join(query.get("scope", [])).split():
            found = read_scope(scope)
            if found is None:
                return refused(
                    400, "UNSUPPORTED", "A scope must be such as repository:NAME:pull or registry:catalog:*."
                )
            access.append(found if admin else self._within_roles(found))
        # As the service does, without saying how long it lives: clients then take it for good for a minute.
        return 200, {"access_token": self._tokens.issue_registry_access(access)}, {}

    def _within_roles(self, access: RegistryAccess) -> RegistryAccess:
        """Return what the service principal's roles leave of *access* to a repository."""
        allowed = self._roles.registry_actions()
        if access.kind != "repository" or "*" in allowed:
            return access
        actions = allowed if "*" in access.actions else access.actions & allowed
        return RegistryAccess(kind=access.kind, name=access.name, actions=actions)

    def _verify_basic(self, user: str, password: str) -> None:
        """Return if user and password are right; raise TokenError otherwise.

        The password of :data:`TOKEN_USER` is a refresh token.
        """
        if self._tokens.is_registry_admin(user, password):
            return
        if user != TOKEN_USER:
            raise TokenError("InvalidAuthenticationToken", "The user name or the password is wrong.")
        self._tokens.verify_registry_refresh(password)

    def _challenge(self, head: Head, asked: Asked, message: str, error: str) -> Answer:
        """Return 401 with the address of the token service, as the client reached it."""
        scope = " ".join(one.text for one in asked.needed)
        realm = _loopback_host(head.header("host") or "") or self._host
        challenge = f'Bearer realm="https://{realm}/oauth2/token",service="{self._host}"'
        challenge += (f',scope="{scope}"' if scope else "") + (f',error="{error}"' if error else "")
        detail = [
            {"Type": one.kind, "Name": one.name, "Action": action}
            for one in asked.needed
            for action in sorted(one.actions)
        ]
        status, value, _ = refused(401, "UNAUTHORIZED", message, detail)
        return status, value, {"WWW-Authenticate": challenge, "Docker-Distribution-Api-Version": "registry/2.0"}

    async def _forward(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        manifest = await _manifest(head, reader)
        streams = await connect("127.0.0.1", self._port)
        dropped = ("connection", "keep-alive", "authorization")
        streams[1].write(head.encoded(plain_target(head.target), "X-Forwarded-Proto: https", without=dropped))
        streams[1].write(manifest)
        if subject := subject_of(manifest):
            answer = await streams[0].readuntil(b"\r\n\r\n")
            writer.write(with_subject(answer, subject))
        await join_streams((reader, writer), streams)
        if head.method == "DELETE":
            await asyncio.to_thread(self._acr.tidy, read_request(head.method, head.target).repository)


def subject_of(manifest: bytes) -> str:
    """Return the digest that a manifest refers to; empty if there is none."""
    try:
        digest = json.loads(manifest)["subject"]["digest"] if manifest else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else ""


def with_subject(answer: bytes, digest: str) -> bytes:
    """Return the head of an answer with ``OCI-Subject``, if the manifest was stored.

    A client that finds it there keeps no list of referrers itself
    (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#pushing-manifests-with-subject).
    """
    if answer.split(b" ", 2)[1:2] != [b"201"]:
        return answer
    return answer.removesuffix(b"\r\n") + f"OCI-Subject: {digest}\r\n\r\n".encode()


async def _manifest(head: Head, reader: asyncio.StreamReader) -> bytes:
    """Return the body of a request that puts a manifest of known length; else nothing.

    A client that waits for permission to send has sent nothing yet.
    """
    length = whole(head.header("content-length") or "")
    asked = read_request(head.method, head.target)
    if head.method != "PUT" or asked.kind != "manifests" or head.header("expect") or length is None:
        return b""
    return await reader.readexactly(length) if length <= MAX_MANIFEST_BYTES else b""


def _user_and_password(head: Head) -> tuple[str, str]:
    """Return what basic authentication says; two empty texts where there is none."""
    scheme, _, value = (head.header("authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(value).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _loopback_host(host: str) -> str:
    """Return *host* with its port if it is a loopback name, otherwise nothing."""
    target = read_target(f"//{host}")
    name = "" if target is None else target.host
    if name == "localhost":
        return host
    try:
        return host if ipaddress.ip_address(name).is_loopback else ""
    except ValueError:
        return ""


async def _small_body(head: Head, reader: asyncio.StreamReader) -> bytes:
    length = whole(head.header("content-length") or "0")
    if length is None or length > MAX_FORM_BYTES:
        raise BadHeadError("not the length of a form")
    return await reader.readexactly(length)


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
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n" + "".join(
        f"{name}: {text}\r\n" for name, text in sent.items()
    )
    writer.write(f"{head}\r\n".encode("latin-1") + (body if with_body else b""))
    await writer.drain()
