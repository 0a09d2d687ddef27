"""Azure Container Registry: its credentials.

Source: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md. Credentials stay in memory: they are neither written to Docker's
configuration nor passed on a command line."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import requests

from aml_train.azure.sign_in import Fetched, SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.http_client import Session, answer_of, exchange
from aml_train.image.base import docker_login, registry_route
from aml_train.image.registry.auth import RegistryAuth, is_acr
from aml_train.image.registry.client import RegistryLocation

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
        now: time in seconds.
        fetched: receives each token that the registry gives, also those that are fetched with these credentials.
    """

    def __init__(
        self,
        host: str,
        token: Callable[[], str],
        *,
        session: requests.Session,
        now: Callable[[], float] = time.monotonic,
        fetched: Callable[[str], object] = lambda _token: None,
    ) -> None:
        self._host = host
        self._token = token
        self._session = session
        self._now = now
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
        hint = "Check the registry's name, the network, and HTTPS_PROXY and NO_PROXY."
        for attempt in retries.repeated(_ATTEMPTS):
            with attempt:
                try:
                    # A redirection would take the token elsewhere.
                    response = exchange(
                        self._session,
                        "POST",
                        f"https://{self._host}/oauth2/exchange",
                        data=form,
                        timeout=_TIMEOUT,
                        allow_redirects=False,
                    )
                except requests.RequestException as error:
                    why = f"The registry {self._host} does not answer: {type(error).__name__}."
                    raise ServiceError(why, hint=hint, transient=True) from error
                if response.status_code == 429 or response.status_code >= 500:
                    why = f"The registry {self._host} answered {response.status_code} to the sign-in."
                    raise ServiceError(why, hint=hint, transient=True)
                return self._refresh_token(response)
        raise AssertionError("the last attempt returns or raises")

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


_REGISTRY_API: Final = "2023-07-01"


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
