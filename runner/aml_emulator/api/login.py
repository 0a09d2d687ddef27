"""Sign-in: Entra ID's endpoints that MSAL and azure-identity use.

See https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qs, quote

from aml_emulator.api import entra_errors as refusals
from aml_emulator.api.entra_errors import EntraError
from aml_emulator.api.people import DEVICE_GRANTS, OPEN_TENANTS, People
from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.identity.tokens import LIFETIME_SECONDS, TokenError, decode_token

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
AUTHORITY = "https://login.microsoftonline.com"
STUDIO = "ml.azure.com"
_OF_PEOPLE: Final = frozenset({"authorization_code", "refresh_token"}) | DEVICE_GRANTS


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of login.microsoftonline.com."""
    login = Login(context)
    return (
        Route(
            method="GET",
            path="/{tenant}/v2.0/.well-known/openid-configuration",
            handler=login.configuration,
            open=True,
        ),
        Route(method="GET", path="/common/discovery/instance", handler=login.instances, open=True),
        Route(method="POST", path="/{tenant}/oauth2/v2.0/token", handler=login.token, open=True),
        Route(method="POST", path="/{tenant}/oauth2/v2.0/devicecode", handler=login.device_code, open=True),
        Route(method="GET", path="/{tenant}/oauth2/v2.0/authorize", handler=login.people.authorize, open=True),
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

    def instances(self, call: Call) -> dict[str, Any]:
        """Return which hosts are one and the same authority."""
        del call
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
            raise refusals.unknown_tenant(call.params["tenant"])
        if grant != "client_credentials":
            raise refusals.unsupported_grant(grant)
        if form.get("client_id") != identity.client_id:
            raise refusals.unknown_application(form.get("client_id", ""), identity.tenant_id)
        self._check_credential(form, from_job=call.from_job)
        if not scope.endswith("/.default") or len(scope.split()) != 1:
            raise refusals.wrong_scope(scope) if scope else refusals.missing_parameter("scope")
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
                raise EntraError("invalid_request", "AADSTS50027: The client assertion's type is not supported.")
            self._context.tokens.check_assertion(form["client_assertion"])
            self._check_issuer(form["client_assertion"], from_job=from_job)
            return
        if "client_secret" not in form:
            raise refusals.missing_credential()
        known = self._context.identity.client_secret.encode("utf-8")
        if not hmac.compare_digest(form["client_secret"].encode("utf-8"), known):
            raise refusals.wrong_secret(self._context.identity.client_id)

    def _check_issuer(self, assertion: str, *, from_job: bool) -> None:
        """Return if the assertion's issuer is trusted; for a job, its key must be known.

        A job could sign an assertion itself.
        """
        if decode_token(assertion)[1].get("iss") != self._context.identity.client_id:
            self._context.federation.check(assertion, signed=from_job)
        elif from_job:
            # The application's own assertions are signed with its certificate, which is not looked up.
            raise TokenError(
                "invalid_client",
                "AADSTS700027: The certificate with which the client assertion was signed is not known here: jobs sign in"
                " with the client secret.",
            )


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

    return (Route(method="GET", path="/runs/{run}", handler=run, open=True),)
