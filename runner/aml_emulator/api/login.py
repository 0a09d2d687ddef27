"""Sign-in: Entra ID's endpoints that MSAL and azure-identity use.

See https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import base64
import hmac
import html
import json
import secrets
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from aml_emulator.api.entra_errors import EntraError, refusal
from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.identity.tokens import CODE_SECONDS, LIFETIME_SECONDS, REFRESH_SECONDS, TokenError

PUBLIC_CLIENTS: Final = frozenset(
    {
        "04b07795-8ddb-461a-bbee-02f9e1bf7b46",
        "1950a258-227b-4e31-a9cf-717495945fc2",
        "872cd9fa-d31f-45e0-9eab-6e460a02d1f1",
        "aebc6443-996d-45c2-90f0-388ff96faa56",
    }
)
"""The Azure command line, which azure-identity and azureml-core sign in as, Azure PowerShell, Visual Studio and VS Code.

Every tenant knows them: https://learn.microsoft.com/power-platform/admin/apps-to-allow.
"""

DEVICE_GRANTS: Final = frozenset({"device_code", "urn:ietf:params:oauth:grant-type:device_code"})
OPEN_TENANTS: Final = frozenset({"common", "organizations"})
"""Names that mean the tenant of the person who signs in."""

_OPENID_SCOPES: Final = frozenset({"openid", "profile", "offline_access", "email"})
_POLL_SECONDS: Final = 5
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DEVICE_PAGE: Final = "https://login.microsoft.com/device"
_HTML: Final = "text/html; charset=utf-8"


class People:
    """Answers for the one person, and the applications that a person signs in to."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def authorize(self, call: Call) -> Reply:
        """Answer the page of the sign-in: send a code to the program at once.

        A refusal is shown to the person; a program at a known address learns of it there.
        """
        asked = dict(call.query)
        client_id, redirect = asked.get("client_id", ""), asked.get("redirect_uri", "")
        try:
            self._check(call, client_id)
            if not _is_own_machine(redirect):
                raise refusal(50011, uri=redirect, client_id=client_id)
        except EntraError as error:
            text = str(error.body(self._context.clock())["error_description"])
            return Reply(status=400, data=_page("Sign in", text), headers={"content-type": _HTML})
        sent = {"state": asked["state"]} if "state" in asked else {}
        if asked.get("response_type", "").split() != ["code"]:
            sent |= {"error": "unsupported_response_type", "error_description": "The response type is code."}
        else:
            sent["code"] = self._context.tokens.issue_grant(
                client_id=client_id, seconds=CODE_SECONDS, scope=asked.get("scope", ""), nonce=asked.get("nonce", "")
            )
            sent |= {"session_state": secrets.token_hex(16)}
        return _sent_back(redirect, asked.get("response_mode", "query"), sent)

    def device_code(self, call: Call, form: Mapping[str, str]) -> dict[str, Any]:
        """Return a code for another device, which is granted already.

        Raises:
            EntraError: an application that people do not sign in to, or a job.
        """
        client_id = form.get("client_id", "")
        self._check(call, client_id)
        if not form.get("scope"):
            raise refusal(900144, name="scope")
        user_code = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(9))
        return {
            "user_code": user_code,
            "device_code": self._context.tokens.issue_grant(
                client_id=client_id, seconds=CODE_SECONDS, scope=form["scope"]
            ),
            "verification_uri": _DEVICE_PAGE,
            "expires_in": CODE_SECONDS,
            "interval": _POLL_SECONDS,
            "message": (
                f"To sign in, use a web browser to open the page {_DEVICE_PAGE} and enter the code {user_code} to"
                " authenticate. (The local AzureML has granted it: there is nothing to do.)"
            ),
        }

    def redeem(self, call: Call, form: Mapping[str, str]) -> dict[str, Any]:
        """Return the tokens for a code or a refresh token.

        Raises:
            EntraError: with Entra ID's words for what is wrong.
        """
        client_id, kind = form.get("client_id", ""), form.get("grant_type", "")
        self._check(call, client_id)
        name = kind if kind == "refresh_token" else "device_code" if kind in DEVICE_GRANTS else "code"
        try:
            scope, nonce = self._context.tokens.verify_grant(
                form.get(name) or form.get("code", ""), client_id=client_id
            )
        except TokenError as error:
            raise refusal(70008 if error.code == "ExpiredAuthenticationToken" else 9002313) from error
        return self._tokens(client_id, form.get("scope") or scope, nonce=nonce)

    def _check(self, call: Call, client_id: str) -> None:
        """Refuse jobs, and applications that are none for people."""
        tenant = call.params["tenant"]
        if tenant not in OPEN_TENANTS | {self._context.identity.tenant_id}:
            raise refusal(90002, tenant=tenant)
        if call.from_job:
            raise refusal(53003)
        if client_id == self._context.identity.client_id:
            raise refusal(7000218)
        if client_id not in PUBLIC_CLIENTS:
            raise refusal(700016, client_id=client_id, tenant=self._context.identity.tenant_id)

    def _tokens(self, client_id: str, scope: str, *, nonce: str) -> dict[str, Any]:
        tokens, identity = self._context.tokens, self._context.identity
        names = [name for name in scope.split() if name not in _OPENID_SCOPES]
        resource = names[0].rpartition("/")[0] if names else "https://graph.microsoft.com"
        client_info = json.dumps({"uid": identity.person.object_id, "utid": identity.tenant_id}).encode()
        return {
            "token_type": "Bearer",
            "scope": " ".join(dict.fromkeys((f"{resource}/user_impersonation", *names))),
            "expires_in": LIFETIME_SECONDS,
            "ext_expires_in": LIFETIME_SECONDS,
            "access_token": tokens.issue_for_person(audience=resource, client_id=client_id),
            "refresh_token": tokens.issue_grant(client_id=client_id, seconds=REFRESH_SECONDS),
            "foci": "1",
            "id_token": tokens.issue_id_token(client_id=client_id, nonce=nonce),
            "client_info": base64.urlsafe_b64encode(client_info).rstrip(b"=").decode("ascii"),
        }


def _is_own_machine(uri: str) -> bool:
    """Return whether a code may be sent to this address: a program on this machine.

    Public clients of Entra ID have ``http://localhost`` with any port (RFC 8252).
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    plain = uri.isascii() and uri.isprintable() and " " not in uri
    return plain and parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.username is None


def _sent_back(redirect: str, mode: str, values: Mapping[str, str]) -> Reply:
    """Return the answer that has a browser bring *values* to the program."""
    if mode != "form_post":
        mark = "#" if mode == "fragment" else "&" if urlsplit(redirect).query else "?"
        return Reply(status=302, data=b"", headers={"location": f"{redirect}{mark}{urlencode(values)}"})
    fields = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in values.items()
    )
    form = (
        f'<form method="POST" name="hiddenform" action="{html.escape(redirect)}">{fields}'
        '<noscript><button type="submit">Continue</button></noscript></form>'
        "<script>document.forms[0].submit()</script>"
    )
    return Reply(data=_page("Working...", form, escape=False), headers={"content-type": _HTML})


def _page(title: str, text: str, *, escape: bool = True) -> bytes:
    content = f"<p>{html.escape(text)}</p>" if escape else text
    return f"<!DOCTYPE html><html lang='en'><head><title>{title}</title></head><body>{content}</body></html>".encode()


ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
AUTHORITY = "https://login.microsoftonline.com"
STUDIO = "ml.azure.com"
_OF_PEOPLE: Final = frozenset({"authorization_code", "refresh_token"}) | DEVICE_GRANTS


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of login.microsoftonline.com."""
    login = Login(context)
    return (
        Route("GET", "/{tenant}/v2.0/.well-known/openid-configuration", login.configuration, open=True),
        Route("GET", "/common/discovery/instance", login.instances, open=True),
        Route("POST", "/{tenant}/oauth2/v2.0/token", login.token, open=True),
        Route("POST", "/{tenant}/oauth2/v2.0/devicecode", login.device_code, open=True),
        Route("GET", "/{tenant}/oauth2/v2.0/authorize", login.people.authorize, open=True),
    )


class Login(Answers):
    """Answers for the one tenant, its service principal and its person."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.people = People(context)

    def configuration(self, call: Call) -> dict[str, Any]:
        """Return the OpenID configuration of the tenant."""
        tenant = call.params["tenant"]
        base = f"{AUTHORITY}/{tenant}"
        # Entra ID names no tenant as the issuer if any may sign in.
        issuer = f"{AUTHORITY}/{{tenantid}}" if tenant in OPEN_TENANTS else base
        return {
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "issuer": f"{issuer}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            "jwks_uri": f"{base}/discovery/v2.0/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
            "response_modes_supported": ["query", "fragment", "form_post"],
            "response_types_supported": ["code"],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "subject_types_supported": ["pairwise"],
            "tenant_region_scope": "NA",
            "cloud_instance_name": "microsoftonline.com",
        }

    def instances(self, _call: Call) -> dict[str, Any]:
        """Return which hosts are one and the same authority."""
        return {
            "tenant_discovery_endpoint": f"{AUTHORITY}/common/v2.0/.well-known/openid-configuration",
            "api-version": "1.1",
            "metadata": [
                {
                    "preferred_network": "login.microsoftonline.com",
                    "preferred_cache": "login.windows.net",
                    "aliases": ["login.microsoftonline.com", "login.windows.net", "sts.windows.net"],
                }
            ],
        }

    def token(self, call: Call) -> Reply | dict[str, Any]:
        """Return an access token for the service principal or the person."""
        form = _form(call)
        grant = form.get("grant_type", "")
        try:
            if grant in _OF_PEOPLE:
                return self.people.redeem(call, form)
            return self._of_principal(call, form, grant)
        except EntraError as error:
            return error.reply(self._context.clock())
        except TokenError as error:
            return EntraError("invalid_client", error.message).reply(self._context.clock())

    def device_code(self, call: Call) -> Reply | dict[str, Any]:
        """Return a code with which a person signs in on another device."""
        try:
            return self.people.device_code(call, _form(call))
        except EntraError as error:
            return error.reply(self._context.clock())

    def _of_principal(self, call: Call, form: dict[str, str], grant: str) -> dict[str, Any]:
        identity, scope = self._context.identity, form.get("scope", "")
        if call.params["tenant"] != identity.tenant_id:
            raise refusal(90002, tenant=call.params["tenant"])
        if grant != "client_credentials":
            raise refusal(70003, grant=grant)
        if form.get("client_id") != identity.client_id:
            raise refusal(700016, client_id=form.get("client_id", ""), tenant=identity.tenant_id)
        self._check_credential(form, from_job=call.from_job)
        if not scope.endswith("/.default") or len(scope.split()) != 1:
            raise refusal(1002012, scope=scope) if scope else refusal(900144, name="scope")
        return {
            "token_type": "Bearer",
            "expires_in": LIFETIME_SECONDS,
            "ext_expires_in": LIFETIME_SECONDS,
            "access_token": self._context.tokens.issue(audience=scope.removesuffix("/.default")),
        }

    def _check_credential(self, form: dict[str, str], *, from_job: bool) -> None:
        """Return if the secret or the assertion is the service principal's.

        Raises:
            EntraError, TokenError: it is not.
        """
        if "client_assertion" in form:
            if form.get("client_assertion_type") != ASSERTION_TYPE:
                raise refusal(50027)
            self._context.tokens.check_assertion(form["client_assertion"])
            # A job could sign an assertion itself: its issuer's key must be known.
            self._context.federation.check(form["client_assertion"], signed=from_job)
            return
        if "client_secret" not in form:
            raise refusal(7000218)
        known = self._context.identity.client_secret.encode("utf-8")
        if not hmac.compare_digest(form["client_secret"].encode("utf-8"), known):
            raise refusal(7000215, client_id=self._context.identity.client_id)


def _form(call: Call) -> dict[str, str]:
    """Return the fields of a form; an empty one is none."""
    return {key: values[-1] for key, values in parse_qs(call.body.decode("utf-8", "replace")).items()}


def studio_routes(context: Context) -> Sequence[Route]:
    """Return the studio's routes, which lead to the page without a token."""

    def run(call: Call) -> Reply:
        if call.host != STUDIO:
            raise NotSupportedError(f"{call.method} https://{call.host}{call.path}")
        page = f"{context.page_address}/ui/runs/{quote(call.params['run'], safe='')}"
        return Reply(status=302, headers={"Location": page})

    return (Route("GET", "/runs/{run}", run, open=True),)
