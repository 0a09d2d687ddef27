"""Azure Container Registry: credentials, and the compute's right to pull.

Source: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md. Credentials stay in memory: they are neither written to Docker's
configuration nor passed on a command line."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import requests

from aml_train.azure.roles import Permission, allows, assignment, permission_of
from aml_train.azure.sign_in import Fetched, SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.http_client import Session, answer_of, exchange
from aml_train.image.base import docker_login, registry_route
from aml_train.image.registry.auth import RegistryAuth, is_acr
from aml_train.image.registry.client import RegistryLocation
from aml_train.jobs.spec import SERVERLESS

if TYPE_CHECKING:
    import requests

    from aml_train.config.sections.targets import TargetConfig
    from aml_train.image.registry.auth import Login

TOKEN_USER: Final = "00000000-0000-0000-0000-000000000000"  # noqa: S105 - a user's name
"""Who signs in to a registry with a refresh token as the password."""

_RENEW_AFTER: Final = 300.0
_TIMEOUT: Final = (10.0, 30.0)
_ATTEMPTS: Final = 4


class AcrLogin:
    """Gives credentials of one registry that are at most five minutes old.

    Registries keep them valid for three hours.

    Args:
        host: the login server, such as ``myregistry.azurecr.io``.
        token: gives a token of Entra ID for registries.
        session: makes the requests.
        now, sleep: time in seconds; passed in so that tests need not wait.
        fetched: receives each token that the registry gives, also those that are fetched with these credentials.
    """

    def __init__(
        self,
        host: str,
        token: Callable[[], str],
        *,
        session: requests.Session,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        fetched: Callable[[str], object] = lambda _token: None,
    ) -> None:
        self._host = host
        self._token = token
        self._session = session
        self._now = now
        self._sleep = sleep
        self._fetched = fetched
        self._lock = threading.Lock()
        self._kept: tuple[float, RegistryAuth] | None = None

    def __call__(self) -> RegistryAuth:
        """Return credentials for registry client and engine.

        Raises:
            ServiceError: sign-in failed, the registry refuses the identity, or does not answer.
        """
        with self._lock:
            if self._kept is None or self._now() - self._kept[0] > _RENEW_AFTER:
                refresh = self._exchange(self._token())
                self._fetched(refresh)
                self._kept = (
                    self._now(),
                    RegistryAuth(
                        username=TOKEN_USER, password=refresh, identity_token=refresh, fetched=self._fetched
                    ),
                )
            return self._kept[1]

    def renew(self) -> None:
        """Forget the credentials: the registry refused them before their time."""
        with self._lock:
            self._kept = None

    def _exchange(self, token: str) -> str:
        form = {"grant_type": "access_token", "service": self._host, "access_token": token}
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(2.0**attempt)
            try:
                # A redirection would take the token elsewhere.
                address = f"https://{self._host}/oauth2/exchange"
                response = exchange(
                    self._session, "POST", address, data=form, timeout=_TIMEOUT, allow_redirects=False
                )
            except requests.RequestException as error:
                problem = f"does not answer: {type(error).__name__}"
                continue
            if response.status_code != 429 and response.status_code < 500:
                return self._refresh_token(response)
            problem = f"answered {response.status_code} to the sign-in"
        raise ServiceError(
            f"The registry {self._host} {problem}.",
            hint="Check the registry's name, the network, and HTTPS_PROXY and NO_PROXY.",
            transient=True,
        )

    def _refresh_token(self, response: requests.Response) -> str:
        if response.status_code != requests.codes.ok:
            raise ServiceError(
                f"The registry {self._host} refused the sign-in: it answered {response.status_code}.",
                hint=f"Check the registry's name; the identity needs the role AcrPush on {self._host}.",
            )

        def fail(problem: str) -> ServiceError:
            return ServiceError(
                f"The service at {self._host} is no Azure Container Registry: it gave no token, and its answer {problem}."
            )

        return answer_of(response, fail, fail).text("refresh_token")


_WORKSPACES_API: Final = "2024-10-01-preview"
_REGISTRY_API: Final = "2023-07-01"
_ROLES_API: Final = "2022-04-01"
#: What pulling takes (https://learn.microsoft.com/azure/container-registry/container-registry-roles): a control-plane action, and in
#: registries with permissions by repository a data action.
_PULL: Final = (
    "Microsoft.ContainerRegistry/registries/pull/read",
    "Microsoft.ContainerRegistry/registries/repositories/content/read",
)


def password_of(settings: TargetConfig, environment: Mapping[str, str]) -> str | None:
    """Return the password of the target's ``registry-user``; None without a user.

    Raises:
        InvalidError: there is a user, and no password.
    """
    if settings.registry_user is None:
        return None
    variable = settings.registry_password_variable
    if not environment.get(variable):
        raise InvalidError(
            f"The target {settings.name!r} signs in to its registry as {settings.registry_user}, and {variable} is not set.",
            hint=f"Set {variable} to the password; in a workflow, from a secret: "
            f"env: {{{variable}: ${{{{ secrets.REGISTRY_PASSWORD }}}}}}",
        )
    return environment[variable]


def location_of(
    host: str,
    settings: TargetConfig,
    *,
    password: str | None,
    sign_in: SignIn,
    scope: str,
    outer: Mapping[str, str],
    listener: Listener,
    fetched: Fetched,
) -> RegistryLocation:
    """Return how the registry *host* is reached, signed in to.

    The target's ``registry-user`` counts first; then, for one of Azure's registries, the identity; then what ``docker login`` keeps.

    Args:
        host: the registry, as jobs name it.
        password: of its ``registry-user``.
        sign_in, scope: the identity, and the scope of its tokens for registries.
        outer: names proxies, certificates and Docker's configuration.
        listener: receives a notice if ``docker login`` replaces an identity that is refused.
        fetched: receives each secret.

    Raises:
        ServiceError: one of Azure's registries refuses the identity, and there is nothing else.
        ImageError: what ``docker login`` keeps cannot be read.
    """

    url, verify, proxies = registry_route(host, outer)
    auth: RegistryAuth | Login | None
    if settings.registry_user is not None:
        fetched(password or "")
        auth = RegistryAuth(username=settings.registry_user, password=password or "", fetched=fetched)
    elif is_acr(host):
        auth = _with_identity(host, sign_in, scope, _session(verify, proxies), outer, listener, fetched)
    else:
        auth = docker_login(host, outer)
    return RegistryLocation(
        push_name=settings.push_registry or host,
        job_name=host,
        url=url,
        auth=auth,
        verify=verify,
        proxies=proxies,
        elsewhere=logins_by_identity(lambda: sign_in, scope, outer=outer, fetched=fetched),
    )


def logins_by_identity(
    sign_in: Callable[[], SignIn], scope: str, *, outer: Mapping[str, str], fetched: Fetched
) -> Callable[[str], Login | None]:
    """Return a function that gives the identity's credentials of Azure's registries.

    None for every other registry, and for one that ``docker login`` keeps credentials of: who signed in there meant it.

    Args:
        sign_in: gives the identity; called only if it is needed.
        scope: the scope of its tokens for registries.
        outer: names proxies, certificates and Docker's configuration.
        fetched: receives each secret.
    """

    def login(registry: str) -> Login | None:

        if not is_acr(registry) or docker_login(registry, outer) is not None:
            return None
        session = http_session(registry, outer)
        return AcrLogin(registry, lambda: sign_in().token(scope), session=session, fetched=fetched)

    return functools.cache(login)


def http_session(host: str, environ: Mapping[str, str]) -> requests.Session:
    """Return a session for a registry, with the proxies and CAs of *environ*."""

    _, verify, proxies = registry_route(host, environ)
    return _session(verify, proxies)


def _session(verify: bool | str, proxies: Mapping[str, str]) -> requests.Session:

    session = Session()
    session.trust_env = False
    session.verify, session.proxies = verify, dict(proxies)
    return session


def _with_identity(
    host: str,
    sign_in: SignIn,
    scope: str,
    session: requests.Session,
    outer: Mapping[str, str],
    listener: Listener,
    fetched: Fetched,
) -> Login | RegistryAuth:

    login = AcrLogin(host, lambda: sign_in.token(scope), session=session, fetched=fetched)
    try:
        login()  # a refusal is reported before anything is built
    except ServiceError as error:
        kept = None if error.transient else docker_login(host, outer)
        if kept is None:
            raise
        text = f"{error.message} The credentials that docker login keeps for {host} are used instead."
        listener(Notice(text=text, level="warning"))
        return kept
    return login


@dataclass(frozen=True, kw_only=True)
class PullDoubt:
    """A doubt whether the compute may pull.

    *command* assigns the missing role; it is empty if nothing is known to be missing.
    """

    reason: str
    command: str = ""


def pull_doubt(rest: AzureRest, host: str, compute: str | None) -> PullDoubt | None:
    """Return a doubt about the compute's right to pull from *host*, or None.

    With a command if no role gives it; without where it cannot be known, for few identities may read role assignments.
    AzureML pulls with the identity of the compute, else with that of the workspace, or with the admin user of the workspace's own
    registry (https://learn.microsoft.com/azure/machine-learning/how-to-identity-based-service-authentication).

    Args:
        rest: the workspace.
        host: the registry, one of Azure's.
        compute: the compute's name; None for a serverless job, which runs as the user or the workspace.
    """
    try:
        registry = find_registry(rest, host)
        if registry is None:
            return PullDoubt(
                reason=f"Whether {compute or 'the job'} may pull from {host} is not known: no such registry is to be seen."
            )
        who, principals = _principals(rest, compute)
        own = (rest.describe().optional_text("containerRegistry") or "").lower() == registry.text("id").lower()
        if own and who == "workspace" and registry.flag("properties.adminUserEnabled"):
            return None
        if any(_may_pull(rest, registry.text("id"), principal) for principal in principals):
            return None
    except ServiceError as error:
        return PullDoubt(reason=f"Whether {compute or 'the job'} may pull from {host} is not known: {error.message}")
    if not principals:
        return PullDoubt(
            reason=f"Whether {compute or 'the job'} may pull from {host} is not known: the {who} has no identity."
        )
    return PullDoubt(
        reason=f"The {who}'s identity has no role that lets it pull from {host}: the job would fail before it starts.",
        command=assignment("AcrPull", registry.text("id"), principals[0]),
    )


def find_registry(rest: AzureRest, host: str) -> Answer | None:
    """Return the registry's resource: the workspace's, or the subscription's."""
    what = f"Looking for the registry {host}"
    params = {"api-version": _REGISTRY_API}
    own = rest.describe().optional_text("containerRegistry")
    if own and own.rpartition("/")[2].lower() == host.partition(".")[0].lower():
        return rest.read(f"{rest.cloud.arm}{own}", what, params=params)
    subscription = f"{rest.cloud.arm}/subscriptions/{rest.workspace.subscription_id}"
    listed = rest.items(f"{subscription}/providers/Microsoft.ContainerRegistry/registries", what, params=params)
    return next(
        (one for one in listed if (one.optional_text("properties.loginServer") or "").lower() == host.lower()), None
    )


def _principals(rest: AzureRest, compute: str | None) -> tuple[str, list[str]]:
    """Return the puller, ``compute NAME`` or ``workspace``, and its object ids."""
    name = (compute or "").removeprefix("azureml:")
    if name and "/" not in name and name != SERVERLESS:
        found = rest.find_compute(name)
        if found is not None and (ids := _identities(found)):
            return f"compute {name}", ids
    what = f"Looking for the workspace {rest.workspace.name}"
    workspace = rest.read(rest.arm(""), what, params={"api-version": _WORKSPACES_API})
    return "workspace", [] if workspace is None else _identities(workspace)


def _identities(resource: Answer) -> list[str]:
    identity = resource.at("identity")
    assigned = [one for _, one in identity.members("userAssignedIdentities")]
    return [found for one in (identity, *assigned) if (found := one.optional_text("principalId"))]


def _may_pull(rest: AzureRest, registry: str, principal: str) -> bool:
    """Return whether a role at the registry, or above it, lets *principal* pull."""
    what = f"Reading the roles of {principal}"
    address = f"{rest.cloud.arm}{registry}/providers/Microsoft.Authorization/roleAssignments"
    params = {"api-version": _ROLES_API, "$filter": f"assignedTo('{principal}')"}
    for assigned in rest.items(address, what, params=params):
        scope = assigned.text("properties.scope")
        if not f"{registry}/".lower().startswith(scope.rstrip("/").lower() + "/"):
            continue  # of something below the registry
        address = f"{rest.cloud.arm}{assigned.text('properties.roleDefinitionId')}"
        role = rest.read(address, what, params={"api-version": _ROLES_API})
        permissions = role.each("properties.permissions") if role is not None else ()
        if any(grants_pull(permission_of(permission)) for permission in permissions):
            return True
    return False


def grants_pull(permission: Permission) -> bool:
    """Return whether one of a role's permissions lets it pull. Pure."""
    return allows(permission, _PULL[0]) or allows(permission, _PULL[1], data=True)
