"""Sign in to Azure with one chosen credential, never interactively."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import requests

from aml_train.azure.clouds import AZURE_PUBLIC, Cloud, core_sdk
from aml_train.azure.credentials import (
    SECRET_VARIABLES,
    WAYS,
    Assertion,
    Given,
    choose_way,
    make_credential,
    remedy_of,
)
from aml_train.core import retry as retries
from aml_train.core.answers import MISREAD, clean
from aml_train.core.errors import ServiceError
from aml_train.core.version import PRODUCT

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

# Error codes: https://learn.microsoft.com/entra/identity-platform/reference-error-codes.
_CODE: Final = re.compile(r"AADSTS(\d+)")
# Entra ID ends its words with the ids of the request; they say nothing to the reader.
_TAIL: Final = re.compile(r"\s*(?:Trace ID|Correlation ID|Timestamp):.*", re.DOTALL)
# azure-identity's own words around Entra ID's.
_AROUND: Final = re.compile(r"Microsoft Entra ID error '\(\w+\) (?P<said>.*?)'?\s*", re.DOTALL)
_JWT: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*")
_LONGEST: Final = 600
#: A federated credential's name: https://learn.microsoft.com/graph/api/resources/federatedidentitycredential.
_LONGEST_NAME: Final = 120
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_READ: Final = 8000

_REMEDIES: Final[Mapping[str, str]] = {
    "90002": "Check the tenant id (AZURE_TENANT_ID) and the cloud (AZURE_ENVIRONMENT).",
    "700016": "Check the client id (AZURE_CLIENT_ID) and the tenant id (AZURE_TENANT_ID).",
    "7000215": "The client secret is wrong: give its value, not its id. Better, sign in with GitHub's OIDC: no secret is needed.",
    "7000222": "The client secret has expired: make a new one (az ad app credential reset). Better, sign in with GitHub's OIDC.",
    "700024": "The assertion has expired, or the clock is wrong. Run again.",
    # Entra ID compares to the letter (https://learn.microsoft.com/entra/identity-platform/reference-breaking-changes, August 2024).
    "7002138": "A federated credential of the application differs from the assertion's subject in upper and lower case alone, which Entra"
    " ID compares. GitHub sends owner, repository and environment as they are written there.",
    "53003": "A conditional access policy of the tenant forbids this sign-in; ask its administrators.",
}
_UNTRUSTED: Final = frozenset({"70021", "700211", "700212", "700213", "700223", "7002138"})
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


def remedy(
    message: str,
    claims: Mapping[str, Any] | None = None,
    otherwise: str | None = None,
    client: str = "CLIENT_ID",
) -> str:
    """Return what to do after Azure refused with *message*.

    Args:
        message: what Azure said.
        claims: of the assertion that was sent, if one was.
        otherwise: the remedy for a message without a known code; None for a general one.
        client: the application that signs in.
    """
    found = _CODE.search(message)
    code = found[1] if found else ""
    if claims is not None and code in _UNTRUSTED:
        return "\n".join(filter(None, (_REMEDIES.get(code), trust(claims, client))))
    general = otherwise or "Check the client id, the tenant id, and that the credential has not expired."
    return _REMEDIES.get(code, general)


def trust(claims: Mapping[str, Any], client: str) -> str:
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
    return "\n".join([*lines, credential_command(claims, client)])


def credential_command(claims: Mapping[str, Any], client: str) -> str:
    """Return the command that makes an application trust a token with *claims*."""
    subject, audience = str(claims.get("sub") or ""), claims.get("aud")
    audiences = [str(one) for one in audience] if isinstance(audience, list) else [str(audience or "")]
    parameters = {
        "name": _NOT_NAME.sub("-", clean(subject).removeprefix("repo:")).strip("-")[:_LONGEST_NAME] or "github",
        "issuer": str(claims.get("iss") or ""),
        "subject": subject,
        "audiences": audiences,
    }
    text = shlex.quote(json.dumps(parameters))
    return f"az ad app federated-credential create --id {shlex.quote(client)} --parameters {text}"


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value) if value else "(the assertion names none)"


# azure-identity logs each refusal as a warning, which Python writes to stderr without a handler. Ours says the same.
logging.getLogger("azure.identity").addHandler(logging.NullHandler())

Fetched = Callable[[str], object]
"""Receives each token as soon as it is there, so that it can be masked before anything prints it."""

#: azure-identity sends each request up to four times by itself.
_ATTEMPTS: Final = 3


class NotAnsweredError(ServiceError):
    """The sign-in got no answer, or not as it should be; it may be temporary."""


class SignIn:
    """A credential whose refusal names the attempt, Azure's answer and a remedy.

    It is a ``TokenCredential`` of azure-core, and is handed to the SDKs.

    Args:
        inner: one of azure-identity's credentials; it keeps tokens and renews them.
        way: a word of :data:`WAYS`.
        claims: gives the claims of the assertion that was sent last.
        fetched: receives each access token that is new, and the secrets of jobs that are read with it.
        again: makes another *inner*, which keeps no token yet; None where there is nothing to forget.
        otherwise: the remedy after a refusal without a known code.
        client: the application that signs in, for the remedy of an assertion that is not trusted.
    """

    def __init__(
        self,
        inner: TokenCredential,
        *,
        way: str,
        claims: Callable[[], Mapping[str, Any] | None] = lambda: None,
        fetched: Fetched = lambda _token: None,
        again: Callable[[], TokenCredential] | None = None,
        otherwise: str | None = None,
        client: str = "CLIENT_ID",
    ) -> None:
        self._inner = inner
        self._again = again
        self._claims = claims
        self.fetched = fetched
        self._otherwise = otherwise
        self._client = client
        self._known: dict[tuple[str, ...], str] = {}
        self.way = way
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
            self.fetched(token.token)
            self._known[scopes] = token.token
        return token

    def _asked(self, *scopes: str, **options: Any) -> AccessToken:
        """Return what the inner credential gives."""
        try:
            return self._inner.get_token(*scopes, **options)
        except ServiceError:  # of the assertion's source, or of a sign-in without azure-identity
            raise
        except Exception as error:
            ours = self._explained(error)
            if ours is None:
                raise
            raise ours from (error if isinstance(ours, NotAnsweredError) else None)

    def _explained(self, error: Exception) -> ServiceError | None:
        """Return our error for one of azure-identity; None for a fault."""
        known = core_sdk().exceptions
        match error:
            case known.ClientAuthenticationError():
                if isinstance(error.__cause__, ServiceError):
                    return error.__cause__
                message = str(error.message)
                if _passes(error):
                    return self._outage(message)
                return ServiceError(
                    f"Sign-in to Azure failed, with {self.title}: {reason(message)}",
                    hint=remedy(message, self._claims(), self._otherwise, self._client),
                )
            case known.AzureError():
                return self._outage(str(error.message))
            case _ if isinstance(error, MISREAD):
                return self._outage(f"the answer cannot be read ({type(error).__name__})")
        return None

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


def _passes(error: Any) -> bool:
    """Return whether a failed sign-in is no refusal but a failure on the way.

    azure-identity wraps these (``wrap_exceptions``, 1.27).
    """

    if error.status_code is not None:
        return error.status_code in retries.TRANSIENT_STATUS
    cause: Any = error.__cause__
    known = core_sdk().exceptions
    refused = isinstance(cause, known.ClientAuthenticationError)
    if isinstance(cause, known.HttpResponseError) and not refused and not isinstance(cause, known.DecodeError):
        return cause.status_code is None or cause.status_code in retries.TRANSIENT_STATUS
    return isinstance(cause, known.AzureError | json.JSONDecodeError) and not refused


def without_secrets(environment: Mapping[str, str], *others: str) -> dict[str, str]:
    """Return *environment* as other commands get it: without what signs in to Azure, and without *others*."""
    return {name: value for name, value in environment.items() if name not in {*SECRET_VARIABLES, *others}}


def sign_in_to_azure(
    environment: Mapping[str, str],
    *,
    cloud: Cloud = AZURE_PUBLIC,
    assertion: Assertion | None = None,
    fetched: Fetched = lambda _token: None,
    session: requests.Session | None = None,
    named: str | None = None,
    subscription: str | None = None,
) -> SignIn:
    """Return the one credential that is chosen, without a request to Azure.

    ``AML_TRAIN_SIGN_IN`` names one, else *named*; else a secret that is set (two are refused), else *assertion*, else the token
    file of a workload identity, else, outside of CI, the login of the Azure CLI. A managed identity
    is used only if it is named.

    Args:
        environment: holds the variables.
        cloud: where to sign in.
        assertion: fetches assertions, where the caller can.
        fetched: receives each access token that is fetched later, from any thread.
        session: sends the requests, where the process's environment is not the way.
        named: the target's ``sign-in``.
        subscription: the target's; it selects one of the accounts of the Azure CLI.

    Raises:
        InvalidError: the choice is unknown or ambiguous.
        ServiceError: nothing to sign in with, or a part of it is missing or cannot be read.
    """
    way = choose_way(environment, has_assertion=assertion is not None, named=named)
    given = Given(
        environment=environment,
        cloud=cloud,
        assertion=assertion,
        options={
            "user_agent": PRODUCT,
            **(
                {}
                if session is None
                else {
                    "transport": core_sdk().pipeline.transport.RequestsTransport(session=session, session_owner=False)
                }
            ),
        },
        subscription=subscription,
    )

    def make() -> TokenCredential:
        return make_credential(way, given)

    return SignIn(
        make(),
        way=way,
        claims=lambda: given.claims if way == "oidc" else None,
        fetched=fetched,
        again=make,
        otherwise=remedy_of(way, environment),
        client=environment.get("AZURE_CLIENT_ID") or "CLIENT_ID",
    )
