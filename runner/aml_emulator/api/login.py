"""Sign-in: Entra ID's endpoints that MSAL and azure-identity use.

See https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.context import Context
from aml_emulator.domain import NotSupportedError
from aml_emulator.identity import LIFETIME_SECONDS, TokenError, decode_token

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
AUTHORITY = "https://login.microsoftonline.com"
STUDIO = "ml.azure.com"


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
    )


class Login(Answers):
    """Answers for the one tenant and the one service principal."""

    def configuration(self, call: Call) -> dict[str, Any]:
        """Return the OpenID configuration of the tenant."""
        tenant = call.params["tenant"]
        base = f"{AUTHORITY}/{tenant}"
        return {
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "issuer": f"{base}/v2.0",
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
            "jwks_uri": f"{base}/discovery/v2.0/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
            "response_types_supported": ["code"],
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
        """Return an access token for the service principal that the form names."""
        form = {key: values[-1] for key, values in parse_qs(call.body.decode("utf-8", "replace")).items()}
        identity = self._context.identity
        if call.params["tenant"] != identity.tenant_id:
            return _refused("invalid_request", f"AADSTS90002: Tenant '{call.params['tenant']}' not found.")
        if form.get("grant_type") != "client_credentials":
            grant = form.get("grant_type", "")
            return _refused(
                "unsupported_grant_type",
                f"AADSTS70003: The local AzureML supports the grant client_credentials only, not '{grant}'.",
            )
        if form.get("client_id") != identity.client_id:
            return _refused(
                "unauthorized_client",
                f"AADSTS700016: Application with identifier '{form.get('client_id', '')}' was not found.",
            )
        refusal = self._check_credential(form, from_job=call.from_job)
        if refusal is not None:
            return refusal
        audience = form.get("scope", "").split(" ")[0].removesuffix("/.default")
        return {
            "token_type": "Bearer",
            "expires_in": LIFETIME_SECONDS,
            "ext_expires_in": LIFETIME_SECONDS,
            "access_token": self._context.tokens.issue(audience=audience),
        }

    def _check_credential(self, form: dict[str, str], *, from_job: bool) -> Reply | None:
        if "client_assertion" in form:
            if form.get("client_assertion_type") != ASSERTION_TYPE:
                return _refused("invalid_request", "AADSTS50027: The client assertion's type is not supported.")
            try:
                self._context.tokens.check_assertion(form["client_assertion"])
                self._check_issuer(form["client_assertion"], from_job=from_job)
            except TokenError as error:
                return _refused("invalid_client", error.message)
            return None
        secret = form.get("client_secret", "")
        if not hmac.compare_digest(secret.encode("utf-8"), self._context.identity.client_secret.encode("utf-8")):
            return _refused("invalid_client", "AADSTS7000215: Invalid client secret provided.")
        return None

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


def _refused(error: str, description: str) -> Reply:
    status = 401 if error == "invalid_client" else 400
    return Reply(status=status, value={"error": error, "error_description": description, "error_codes": []})


def studio_routes(context: Context) -> Sequence[Route]:
    """Return the studio's routes, which lead to the page without a token."""

    def run(call: Call) -> Reply:
        if call.host != STUDIO:
            raise NotSupportedError(f"{call.method} https://{call.host}{call.path}")
        page = f"{context.page_address}/ui/runs/{quote(call.params['run'], safe='')}"
        return Reply(status=302, headers={"Location": page})

    return (Route(method="GET", path="/runs/{run}", handler=run, open=True),)
