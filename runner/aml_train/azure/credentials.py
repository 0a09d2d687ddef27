"""Choose how to sign in to Azure, and make azure-identity's credential for it.

The variables are those that azure-identity and azure/login document.
"""

from __future__ import annotations

import base64
import binascii
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from aml_train.azure.clouds import Cloud
from aml_train.core.answers import UndecodableError, decode
from aml_train.core.errors import InvalidError, ServiceError

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

Assertion = Callable[[str], str]
"""Fetches a new assertion (a JSON Web Token of an issuer that Azure trusts) for the audience that it is given."""

#: ``AML_TRAIN_SIGN_IN`` and ``targets.NAME.sign-in``: word → what it is called in messages.
WAYS: Final[Mapping[str, str]] = {
    "cli": "the login of the Azure CLI (az login)",
    "oidc": "the OIDC token of the workflow",
    "workload-identity": "the workload identity's token file",
    "managed-identity": "the managed identity",
    "secret": "the service principal's secret",
    "creds": "AZURE_CREDENTIALS",
}
ENVIRONMENT: Final = "environment"
"""The word for a choice among the credentials of the environment, without a login of this machine."""

#: Variables that hold a secret: only the sign-in needs them.
SECRET_VARIABLES: Final = frozenset({"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_CREDENTIALS"})
#: Word → the variable whose presence chooses it; in the order of precedence. They are secrets: nothing sets them by itself.
_SECRETS: Final = {
    "secret": "AZURE_CLIENT_SECRET",
    "creds": "AZURE_CREDENTIALS",
}
_BY_NAME: Final = "AML_TRAIN_SIGN_IN"
_NO_WAY: Final = (
    "On your machine: az login. A service principal needs AZURE_CLIENT_ID and AZURE_TENANT_ID, and one of "
    "AZURE_CLIENT_SECRET, AZURE_FEDERATED_TOKEN_FILE; or AZURE_CREDENTIALS. In GitHub's "
    f"workflows the action signs in with OIDC. {_BY_NAME}, or targets.NAME.sign-in, chooses by name: "
    f"{', '.join((*WAYS, ENVIRONMENT))}."
)
_NOT_IN_CI: Final = " In CI, a login of az is used only by its name."
_BY_INPUTS: Final = " In a workflow, give the action the inputs client-id and tenant-id; an expression such as ${{ vars.NAME }} may be empty."

#: What CI services set. ``CI``: GitHub, GitLab, CircleCI, Travis, Bitbucket, Buildkite and others; the rest are services that do not
#: set it: https://learn.microsoft.com/azure/devops/pipelines/build/variables, https://www.jenkins.io/doc/book/pipeline/jenkinsfile
#: (JENKINS_URL), https://www.jetbrains.com/help/teamcity/predefined-build-parameters.html,
#: https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html.
_CI: Final = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "JENKINS_URL", "TEAMCITY_VERSION", "CODEBUILD_BUILD_ID")
#: The program starts a Python and looks for updates: azure-identity's 10 seconds are too few on a busy machine.
_LOGIN_SECONDS: Final = 60
_RENEW_SECONDS: Final = 300.0


def in_ci(environment: Mapping[str, str]) -> bool:
    """Return whether the environment is one of a CI service."""
    return any(environment.get(name, "").lower() not in ("", "0", "false") for name in _CI)


def choose_way(environment: Mapping[str, str], *, has_assertion: bool, named: str | None) -> str:
    """Return the word of :data:`WAYS` by which to sign in.

    Args:
        environment: the variables.
        has_assertion: whether the caller can fetch assertions.
        named: the target's ``sign-in``; the variable wins over it.

    Raises:
        InvalidError: the choice is unknown or ambiguous.
        ServiceError: there is nothing to sign in with.
    """
    word = environment.get(_BY_NAME) or named
    if word and word not in (*WAYS, ENVIRONMENT):
        raise InvalidError(
            f"{_BY_NAME}: {word!r} is not known.", hint=f"Known are {', '.join((*WAYS, ENVIRONMENT))}."
        )
    if word and word != ENVIRONMENT:
        return word
    given = [way for way, variable in _SECRETS.items() if environment.get(variable)]
    if len(given) > 1:
        names = " and ".join(_SECRETS[way] for way in given)
        raise InvalidError(f"{names} are both set.", hint=f"Keep one, or set {_BY_NAME}={given[0]}.")
    if given:
        return given[0]
    if has_assertion:
        return "oidc"
    if environment.get("AZURE_FEDERATED_TOKEN_FILE"):
        return "workload-identity"
    ci = in_ci(environment)
    if not word and not ci and shutil.which("az", path=environment.get("PATH", "")):
        return "cli"
    hint = _NO_WAY + (_NOT_IN_CI if ci else "")
    raise ServiceError("Cannot sign in to Azure: nothing is given to sign in with.", hint=hint)


def remedy_of(way: str, environment: Mapping[str, str]) -> str | None:
    """Return the remedy of a refusal without a known code; None for the general one."""
    tenant = environment.get("AZURE_TENANT_ID") or ""
    return {
        "cli": f"Sign in: az login{f' --tenant {tenant}' * bool(tenant)}. If az is not installed, or has another person's login: another"
        f" way by {_BY_NAME}, see docs/azure.md.",
        "managed-identity": "Only machines of Azure have a managed identity: assign one (az vm identity assign), and set "
        "AZURE_CLIENT_ID for a user-assigned one.",
    }.get(way)


def claims_of(assertion: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token, unverified, for display; none for others."""
    try:
        part = assertion.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, kw_only=True)
class Given:
    """The parts of a credential.

    Attributes:
        environment: the variables.
        cloud: where to sign in.
        assertion: fetches assertions; None if the caller cannot.
        options: for azure-core's pipeline.
        subscription: selects one of the accounts of the Azure CLI.
        claims: always holds the claims of the assertion that was sent last.
    """

    environment: Mapping[str, str] = field(repr=False)
    cloud: Cloud
    assertion: Assertion | None
    options: Mapping[str, Any]
    subscription: str | None
    claims: dict[str, Any] = field(default_factory=dict)

    def needed(self, way: str, *names: str) -> list[str]:
        """Return the values of variables that *way* needs.

        Raises:
            ServiceError: one is missing.
        """
        missing = [name for name in names if not self.environment.get(name)]
        if missing:
            raise ServiceError(
                f"Cannot sign in to Azure with {WAYS[way]}: {', '.join(missing)} not set.",
                hint=f"Set all of {', '.join(names)}." + (_BY_INPUTS if way == "oidc" else ""),
            )
        return [self.environment[name] for name in names]


def make_credential(way: str, given: Given) -> TokenCredential:
    """Return azure-identity's credential for *way*, without a request.

    Raises:
        InvalidError: the tenant or the subscription cannot be one.
        ServiceError: a part of it is missing or cannot be read.
    """
    return _MAKERS[way](given)


class KeptTokens:
    """Keeps the tokens of a credential that starts a program for each.

    Args:
        inner: the credential.
        now: seconds since the epoch.
    """

    def __init__(self, inner: TokenCredential, *, now: Callable[[], float] = time.time) -> None:
        self._inner = inner
        self._now = now
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, ...], AccessToken] = {}

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """Return the kept token, until five minutes before its end."""
        with self._lock:
            kept = self._kept.get(scopes)
            # A claims challenge refuses the kept one.
            if kept is None or options.get("claims") or kept.expires_on - self._now() < _RENEW_SECONDS:
                kept = self._kept[scopes] = self._inner.get_token(*scopes, **options)
            return kept


def _sdk() -> Any:
    """Return azure-identity, which is slow to import."""
    import azure.identity

    return azure.identity


def _cli(given: Given) -> TokenCredential:
    """Return the Azure CLI's login, for the tenant if one is set, or the subscription.

    ``az account get-access-token`` takes one of them.
    """
    tenant = given.environment.get("AZURE_TENANT_ID") or ""
    subscription = None if tenant else given.subscription
    try:
        return KeptTokens(
            _sdk().AzureCliCredential(tenant_id=tenant, subscription=subscription, process_timeout=_LOGIN_SECONDS)
        )
    except ValueError as error:
        raise InvalidError(
            f"Cannot sign in to Azure: {error}", hint="Check AZURE_TENANT_ID and the target's subscription-id."
        ) from error


def _oidc(given: Given) -> TokenCredential:
    assertion = given.assertion
    if assertion is None:
        raise ServiceError(
            "Cannot sign in to Azure with OIDC: only the action can fetch a token of the workflow.",
            hint="Use the action, or choose another way: docs/azure.md.",
        )
    tenant, client = given.needed("oidc", "AZURE_TENANT_ID", "AZURE_CLIENT_ID")

    def fetch() -> str:
        text = assertion(given.cloud.federated_audience)
        given.claims.clear()
        given.claims.update(claims_of(text))
        return text

    return _sdk().ClientAssertionCredential(tenant, client, fetch, authority=given.cloud.authority, **given.options)


def _workload_identity(given: Given) -> TokenCredential:
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE")
    tenant, client, file = given.needed("workload-identity", *names)
    return _sdk().WorkloadIdentityCredential(
        tenant_id=tenant, client_id=client, token_file_path=file, authority=given.cloud.authority, **given.options
    )


def _managed_identity(given: Given) -> TokenCredential:
    client = given.environment.get("AZURE_CLIENT_ID") or None
    return _sdk().ManagedIdentityCredential(client_id=client, **given.options)


def _secret(given: Given) -> TokenCredential:
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    return _with_secret(given, *given.needed("secret", *names))


def _with_secret(given: Given, tenant: str, client: str, secret: str) -> TokenCredential:
    return _sdk().ClientSecretCredential(tenant, client, secret, authority=given.cloud.authority, **given.options)


def _creds(given: Given) -> TokenCredential:
    """Return the credential in the JSON of ``az ad sp create-for-rbac --json-auth``."""
    (text,) = given.needed("creds", "AZURE_CREDENTIALS")
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
    return _with_secret(given, *(found[name] for name in names))


_MAKERS: Final[Mapping[str, Callable[[Given], TokenCredential]]] = {
    "cli": _cli,
    "oidc": _oidc,
    "workload-identity": _workload_identity,
    "managed-identity": _managed_identity,
    "secret": _secret,
    "creds": _creds,
}
