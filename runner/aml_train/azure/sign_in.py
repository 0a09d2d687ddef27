"""Sign in to Azure as the environment says, never interactively.

The variables are those that azure-identity and azure/login document.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from aml_train.azure.clouds import AZURE_PUBLIC, Cloud
from aml_train.core import retry as retries
from aml_train.core.answers import MISREAD, UndecodableError, clean, decode
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.version import PRODUCT

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential
    from azure.core.exceptions import ClientAuthenticationError

# Error codes: https://learn.microsoft.com/entra/identity-platform/reference-error-codes.
_CODE: Final = re.compile(r"AADSTS(\d+)")
# Entra ID ends its words with the ids of the request; they say nothing to the reader.
_TAIL: Final = re.compile(r"\s*(?:Trace ID|Correlation ID|Timestamp):.*", re.DOTALL)
# azure-identity's own words around Entra ID's.
_AROUND: Final = re.compile(r"Microsoft Entra ID error '\(\w+\) (?P<said>.*?)'?\s*", re.DOTALL)
_JWT: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*")
_LONGEST: Final = 600
_LONGEST_READ: Final = 8000

_REMEDIES: Final[Mapping[str, str]] = {
    "90002": "Check the tenant id (AZURE_TENANT_ID) and the cloud (AZURE_ENVIRONMENT).",
    "700016": "Check the client id (AZURE_CLIENT_ID) and the tenant id (AZURE_TENANT_ID).",
    "7000215": "The client secret is wrong: give its value, not its id. Better, sign in with GitHub's OIDC: no secret is needed.",
    "7000222": "The client secret has expired: make a new one (az ad app credential reset). Better, sign in with GitHub's OIDC.",
    "700024": "The assertion has expired, or the clock is wrong. Run again.",
    "700027": "The certificate is not one of the application's: upload it, or give another.",
    "53003": "A conditional access policy of the tenant forbids this sign-in; ask its administrators.",
}
_UNTRUSTED: Final = frozenset({"70021", "700211", "700212", "700213", "700223"})
"""No federated credential of the application fits the assertion's issuer, audience or subject."""


def reason(message: str) -> str:
    """Return Azure's explanation in one line, without request ids and tokens.

    An answer that msal quotes may hold halves of surrogate pairs.
    """
    # In one line and cut first: the patterns below are quick for text of this form alone.
    said = " ".join(clean(message[:_LONGEST_READ]).split())
    said = _TAIL.sub("", said.removeprefix("Authentication failed: "))
    found = _AROUND.fullmatch(said)
    said = found["said"] if found else said
    return " ".join(_JWT.sub("(token)", said).split())[:_LONGEST] or "no reason was given"


def remedy(message: str, claims: Mapping[str, Any] | None = None) -> str:
    """Return what to do after Azure refused with *message*.

    Args:
        message: what Azure said.
        claims: of the assertion that was sent, if one was.
    """
    found = _CODE.search(message)
    code = found[1] if found else ""
    if claims is not None and code in _UNTRUSTED:
        return trust(claims)
    return _REMEDIES.get(code, "Check the client id, the tenant id, and that the credential has not expired.")


def trust(claims: Mapping[str, Any]) -> str:
    """Return the trust that Azure needs for an assertion with *claims*."""
    issuer, subject, audience = (_text(claims.get(name)) for name in ("iss", "sub", "aud"))
    lines = [
        "Azure must trust this workflow. Add a federated credential to the application, with exactly:",
        f"  issuer:   {issuer}",
        f"  subject:  {subject}",
        f"  audience: {audience}",
    ]
    where = [f"{name} {claims[name]}" for name in ("repository", "ref", "environment") if claims.get(name)]
    if where:
        lines.append(
            f"(the run is of {', '.join(where)}; the subject changes with branch, tag, pull request and environment)"
        )
    lines.append("docs/azure.md has the command.")
    return "\n".join(lines)


def claims_of(assertion: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token, unverified, for display; none for others."""
    try:
        part = assertion.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value) if value else "(the assertion names none)"


# azure-identity logs each refusal as a warning, which Python writes to stderr without a handler. Ours says the same.
logging.getLogger("azure.identity").addHandler(logging.NullHandler())

Assertion = Callable[[str], str]
"""Fetches a new assertion (a JSON Web Token of an issuer that Azure trusts) for the audience that it is given."""

Fetched = Callable[[str], object]
"""Receives each token as soon as it is there, so that it can be masked before anything prints it."""

#: ``AML_TRAIN_SIGN_IN``: word → what it is called in messages.
WAYS: Final[Mapping[str, str]] = {
    "oidc": "the OIDC token of the workflow",
    "workload-identity": "the workload identity's token file",
    "managed-identity": "the managed identity",
    "secret": "the service principal's secret",
    "certificate": "the service principal's certificate",
    "creds": "AZURE_CREDENTIALS",
}
#: Variables that hold a secret: only :func:`sign_in_to_azure` needs them.
SECRET_VARIABLES: Final = frozenset({"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_CREDENTIALS"})
#: Word → the variable whose presence chooses it; in the order of precedence. They are secrets: nothing sets them by itself.
_SECRETS: Final = {
    "secret": "AZURE_CLIENT_SECRET",
    "certificate": "AZURE_CLIENT_CERTIFICATE_PATH",
    "creds": "AZURE_CREDENTIALS",
}
#: azure-identity sends each request up to four times by itself.
_ATTEMPTS: Final = 3
_NO_WAY: Final = (
    "Set AZURE_CLIENT_ID and AZURE_TENANT_ID, and one of: AZURE_CLIENT_SECRET, AZURE_CLIENT_CERTIFICATE_PATH, "
    "AZURE_FEDERATED_TOKEN_FILE; or AZURE_CREDENTIALS; or AML_TRAIN_SIGN_IN=managed-identity. "
    "In GitHub's workflows the action signs in with OIDC."
)
_BY_INPUTS: Final = " In a workflow, give the action the inputs client-id and tenant-id; an expression such as ${{ vars.NAME }} may be empty."


class NotAnsweredError(ServiceError):
    """The sign-in got no answer, or not as it should be; it may be temporary."""


class SignIn:
    """A credential whose refusal names the attempt, Azure's answer and a remedy.

    It is a ``TokenCredential`` of azure-core, and is handed to the SDKs.

    Args:
        inner: one of azure-identity's credentials; it keeps tokens and renews them.
        way: a word of :data:`WAYS`.
        claims: gives the claims of the assertion that was sent last.
        fetched: receives each access token that is new.
        again: makes another *inner*, which keeps no token yet; None where there is nothing to forget.
    """

    def __init__(
        self,
        inner: TokenCredential,
        *,
        way: str,
        claims: Callable[[], Mapping[str, Any] | None] = lambda: None,
        fetched: Fetched = lambda _token: None,
        again: Callable[[], TokenCredential] | None = None,
    ) -> None:
        self._inner = inner
        self._again = again
        self._claims = claims
        self._fetched = fetched
        self._known: dict[tuple[str, ...], str] = {}
        self.title = WAYS[way]

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return a token for *scopes*: a kept one, or a new one.

        Raises:
            ServiceError: the sign-in was refused.
            NotAnsweredError: there was no answer, several times.
        """
        # The errors of the assertion's source have been retried there, and pass.
        for attempt in retries.repeated(_ATTEMPTS, only=NotAnsweredError):
            with attempt:
                token = self._asked(*scopes, **options)
        # Most are kept ones: each is reported once.
        if self._known.get(scopes) != token.token:
            self._fetched(token.token)
            self._known[scopes] = token.token
        return token

    def _asked(self, *scopes: str, **options: Any) -> AccessToken:
        """Return what the inner credential gives."""
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        try:
            return self._inner.get_token(*scopes, **options)
        except ClientAuthenticationError as error:
            if isinstance(error.__cause__, ServiceError):
                raise error.__cause__ from None
            message = str(error.message)
            if _passes(error):
                raise self._outage(message) from error
            raise ServiceError(
                f"Sign-in to Azure failed, with {self.title}: {reason(message)}", hint=remedy(message, self._claims())
            ) from None
        except AzureError as error:
            raise self._outage(str(error.message)) from error
        except MISREAD as error:
            raise self._outage(f"the answer cannot be read ({type(error).__name__})") from error

    def _outage(self, message: str) -> NotAnsweredError:
        # msal answers from memory for a minute after a 429 or 5xx (throttled_http_client.py, 1.37): another one has none.
        self.forget()
        return NotAnsweredError(
            f"Sign-in to Azure did not succeed, with {self.title}: {reason(message)}",
            hint="Check the network, HTTPS_PROXY and the CA bundle.",
            transient=True,
        )

    def forget(self) -> None:
        """Drop the kept tokens: a service may refuse one that this clock takes for valid."""
        if self._again is not None:
            self._inner = self._again()

    def token(self, scope: str) -> str:
        """Return the text of a token; see :meth:`get_token`."""
        text: str = self.get_token(scope).token
        return text


def _passes(error: ClientAuthenticationError) -> bool:
    """Return whether a failed sign-in is no refusal but a failure on the way.

    azure-identity wraps these (``wrap_exceptions``, 1.27).
    """
    from azure.core.exceptions import AzureError, ClientAuthenticationError, DecodeError, HttpResponseError

    if error.status_code is not None:
        return error.status_code in retries.TRANSIENT_STATUS
    cause = error.__cause__
    if isinstance(cause, HttpResponseError) and not isinstance(cause, DecodeError | ClientAuthenticationError):
        return cause.status_code is None or cause.status_code in retries.TRANSIENT_STATUS
    return isinstance(cause, AzureError | json.JSONDecodeError) and not isinstance(cause, ClientAuthenticationError)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return *environment* as other commands get it: without what signs in to Azure."""
    return {name: value for name, value in environment.items() if name not in SECRET_VARIABLES}


def sign_in_to_azure(
    environment: Mapping[str, str],
    *,
    cloud: Cloud = AZURE_PUBLIC,
    assertion: Assertion | None = None,
    fetched: Fetched = lambda _token: None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> SignIn:
    """Return the credential that *environment* chooses, without a request to Azure.

    ``AML_TRAIN_SIGN_IN`` names one; else a secret that is set (two are refused), else *assertion*, else the token file of a
    workload identity. A managed identity is used only if it is named.

    Args:
        environment: holds the variables.
        cloud: where to sign in.
        assertion: fetches assertions, where the caller can.
        fetched: receives each access token that is fetched later, from any thread.
        options: for azure-core's pipeline, such as ``proxies``, where the process's environment is not the way.

    Raises:
        InvalidError: the choice is unknown or ambiguous.
        ServiceError: nothing to sign in with, or a part of it is missing or cannot be read.
    """
    way = _choose(environment, has_assertion=assertion is not None)
    options = {"user_agent": PRODUCT, **options}
    claims: dict[str, Any] = {}
    makers: Mapping[str, Callable[[], TokenCredential]] = {
        "oidc": lambda: _oidc(environment, cloud, assertion, claims, options),
        "workload-identity": lambda: _workload_identity(environment, cloud, options),
        "managed-identity": lambda: _managed_identity(environment, options),
        "secret": lambda: _secret(environment, cloud, options),
        "certificate": lambda: _certificate(environment, cloud, options),
        "creds": lambda: _creds(environment, cloud, options),
    }
    make = makers[way]
    return SignIn(make(), way=way, claims=lambda: claims if way == "oidc" else None, fetched=fetched, again=make)


def _choose(environment: Mapping[str, str], *, has_assertion: bool) -> str:
    if named := environment.get("AML_TRAIN_SIGN_IN"):
        if named not in WAYS:
            raise InvalidError(f"AML_TRAIN_SIGN_IN: {named!r} is not known.", hint=f"Known are {', '.join(WAYS)}.")
        return named
    given = [way for way, variable in _SECRETS.items() if environment.get(variable)]
    if len(given) > 1:
        names = " and ".join(_SECRETS[way] for way in given)
        raise InvalidError(f"{names} are both set.", hint=f"Keep one, or set AML_TRAIN_SIGN_IN={given[0]}.")
    if given:
        return given[0]
    if has_assertion:
        return "oidc"
    if environment.get("AZURE_FEDERATED_TOKEN_FILE"):
        return "workload-identity"
    raise ServiceError("Cannot sign in to Azure: nothing is given to sign in with.", hint=_NO_WAY)


def _needed(environment: Mapping[str, str], way: str, *names: str) -> list[str]:
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise ServiceError(
            f"Cannot sign in to Azure with {WAYS[way]}: {', '.join(missing)} not set.",
            hint=f"Set all of {', '.join(names)}." + (_BY_INPUTS if way == "oidc" else ""),
        )
    return [environment[name] for name in names]


def _oidc(
    environment: Mapping[str, str],
    cloud: Cloud,
    assertion: Assertion | None,
    claims: dict[str, Any],
    options: Mapping[str, Any],
) -> TokenCredential:
    """Return the credential; *claims* always holds those of the last assertion sent."""
    if assertion is None:
        raise ServiceError(
            "Cannot sign in to Azure with OIDC: only the action can fetch a token of the workflow.",
            hint="Use the action, or choose another way: docs/azure.md.",
        )
    tenant, client = _needed(environment, "oidc", "AZURE_TENANT_ID", "AZURE_CLIENT_ID")
    from azure.identity import ClientAssertionCredential

    def fetch() -> str:
        text = assertion(cloud.federated_audience)
        claims.clear()
        claims.update(claims_of(text))
        return text

    return ClientAssertionCredential(tenant, client, fetch, authority=cloud.authority, **options)


def _workload_identity(environment: Mapping[str, str], cloud: Cloud, options: Mapping[str, Any]) -> TokenCredential:
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE")
    tenant, client, file = _needed(environment, "workload-identity", *names)
    from azure.identity import WorkloadIdentityCredential

    return WorkloadIdentityCredential(
        tenant_id=tenant, client_id=client, token_file_path=file, authority=cloud.authority, **options
    )


def _managed_identity(environment: Mapping[str, str], options: Mapping[str, Any]) -> TokenCredential:
    from azure.identity import ManagedIdentityCredential

    client = environment.get("AZURE_CLIENT_ID") or None
    return ManagedIdentityCredential(client_id=client, **options)


def _secret(environment: Mapping[str, str], cloud: Cloud, options: Mapping[str, Any]) -> TokenCredential:
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    return _with_secret(*_needed(environment, "secret", *names), cloud=cloud, options=options)


def _with_secret(
    tenant: str, client: str, secret: str, *, cloud: Cloud, options: Mapping[str, Any]
) -> TokenCredential:
    from azure.identity import ClientSecretCredential

    return ClientSecretCredential(tenant, client, secret, authority=cloud.authority, **options)


def _certificate(environment: Mapping[str, str], cloud: Cloud, options: Mapping[str, Any]) -> TokenCredential:
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_CERTIFICATE_PATH")
    tenant, client, file = _needed(environment, "certificate", *names)
    from azure.identity import CertificateCredential

    password = environment.get("AZURE_CLIENT_CERTIFICATE_PASSWORD") or None
    try:
        return CertificateCredential(tenant, client, file, password=password, authority=cloud.authority, **options)
    except (OSError, ValueError) as error:
        # The library's own words may quote the file.
        raise ServiceError(
            f"Cannot sign in to Azure: the certificate {file} cannot be read ({type(error).__name__}).",
            hint="AZURE_CLIENT_CERTIFICATE_PATH names a PEM or PKCS 12 file with the private key; "
            "AZURE_CLIENT_CERTIFICATE_PASSWORD its password, if it has one.",
        ) from None


def _creds(environment: Mapping[str, str], cloud: Cloud, options: Mapping[str, Any]) -> TokenCredential:
    """Return the credential in the JSON of ``az ad sp create-for-rbac --json-auth``."""
    (text,) = _needed(environment, "creds", "AZURE_CREDENTIALS")
    try:
        found = decode(text.encode(errors="replace"))
    except UndecodableError:
        found = None
    names = ("tenantId", "clientId", "clientSecret")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) and found[name] for name in names):
        raise ServiceError(
            f"Cannot sign in to Azure: AZURE_CREDENTIALS is not JSON with {', '.join(names)}.",
            hint="az ad sp create-for-rbac --json-auth writes it. Better, sign in with GitHub's OIDC: docs/azure.md.",
        )
    return _with_secret(*(found[name] for name in names), cloud=cloud, options=options)
