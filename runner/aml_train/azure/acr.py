"""The registry of the target ``azure``: who signs in to it, and whether the compute may pull from it."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from aml_train.azure.sign_in import Fetched, SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener, Notice

if TYPE_CHECKING:
    import requests

    from aml_train.config import TargetConfig
    from aml_train.image import Login, RegistryAuth, RegistryLocation

_COMPUTE_API: Final = "2024-10-01-preview"
_REGISTRY_API: Final = "2023-07-01"
_ROLES_API: Final = "2022-04-01"
#: What pulling takes (https://learn.microsoft.com/azure/container-registry/container-registry-roles): a control-plane action, and in
#: registries with permissions by repository a data action.
_PULL: Final = (
    "Microsoft.ContainerRegistry/registries/pull/read",
    "Microsoft.ContainerRegistry/registries/repositories/content/read",
)


def password_of(settings: TargetConfig, environment: Mapping[str, str]) -> str | None:
    """Return the password of the target's ``registry-user``; None where no such user is configured.

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
        settings: the target.
        password: of its ``registry-user``.
        sign_in, scope: the identity, and what its tokens for registries are asked for.
        outer: names proxies, certificates and Docker's configuration.
        listener: told where ``docker login`` stands in for an identity that is refused.
        fetched: told each secret.

    Raises:
        ServiceError: one of Azure's registries refuses the identity, and there is nothing else.
        ImageError: what ``docker login`` keeps cannot be read.
    """
    from aml_train.image import RegistryAuth, RegistryLocation, docker_login, http_options, is_acr, registry_url

    url = registry_url(host)
    verify, proxies = http_options(url, outer)
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
    """Return what gives the credentials for a registry by its name: the identity, in one of Azure's; for bases that are there.

    None for every other registry, and for one that ``docker login`` keeps credentials of: who signed in there meant it.

    Args:
        sign_in: gives the identity; asked only where it is needed.
        scope: what its tokens for registries are asked for.
        outer: names proxies, certificates and Docker's configuration.
        fetched: told each secret.
    """

    def login(registry: str) -> Login | None:
        from aml_train.azure.acr_login import AcrLogin
        from aml_train.image import docker_login, http_options, is_acr, registry_url

        if not is_acr(registry) or docker_login(registry, outer) is not None:
            return None
        session = _session(*http_options(registry_url(registry), outer))
        return AcrLogin(registry, lambda: sign_in().token(scope), session=session, fetched=fetched)

    return functools.cache(login)


def _session(verify: bool | str, proxies: Mapping[str, str]) -> requests.Session:
    from aml_train.core.http_client import new_session

    session = new_session()
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
    from aml_train.azure.acr_login import AcrLogin
    from aml_train.image import docker_login

    login = AcrLogin(host, lambda: sign_in.token(scope), session=session, fetched=fetched)
    try:
        login()  # a refusal is told before anything is built
    except ServiceError as error:
        kept = None if error.transient else docker_login(host, outer)
        if kept is None:
            raise
        text = f"{error.message} What docker login keeps for {host} is used instead."
        listener(Notice(text=text, level="warning"))
        return kept
    return login


def pull_doubt(rest: AzureRest, host: str, compute: str | None) -> Notice | None:
    """Return what is to be said about the compute's right to pull from *host*; None where it has it.

    A warning where no role gives it; information where it cannot be known, for few identities may read role assignments.
    AzureML pulls with the identity of the compute, else with that of the workspace, or with the admin user of the workspace's own
    registry (https://learn.microsoft.com/azure/machine-learning/how-to-identity-based-service-authentication).

    Args:
        rest: the workspace.
        host: the registry, one of Azure's.
        compute: the compute's name; None for a serverless job, which runs as the user or the workspace.
    """
    try:
        registry = _registry(rest, host)
        if registry is None:
            return Notice(
                text=f"Whether {compute or 'the job'} may pull from {host} is not known: no such registry is to be seen."
            )
        who, principals = _principals(rest, compute)
        own = (rest.describe().optional_text("containerRegistry") or "").lower() == registry.text("id").lower()
        if own and who == "workspace" and registry.flag("properties.adminUserEnabled"):
            return None
        if any(_may_pull(rest, registry.text("id"), principal) for principal in principals):
            return None
    except ServiceError as error:
        return Notice(text=f"Whether {compute or 'the job'} may pull from {host} is not known: {error.message}")
    if not principals:
        return Notice(
            text=f"Whether {compute or 'the job'} may pull from {host} is not known: the {who} has no identity."
        )
    assign = (
        f"az role assignment create --assignee-object-id {principals[0]} --assignee-principal-type ServicePrincipal "
        f"--role AcrPull --scope {registry.text('id')}"
    )
    return Notice(
        text=f"The {who}'s identity has no role that lets it pull from {host}: the job would fail before it starts. {assign}",
        level="warning",
    )


def _registry(rest: AzureRest, host: str) -> Answer | None:
    """Return the registry's resource: the workspace's own, or one of the subscription's."""
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
    """Return who pulls, ``compute NAME`` or ``workspace``, and the object ids of its identities."""
    name = (compute or "").removeprefix("azureml:")
    if name and "/" not in name and name != "serverless":
        params = {"api-version": _COMPUTE_API}
        found = rest.read(rest.arm(f"/computes/{quote(name)}"), f"Looking for the compute {name}", params=params)
        if found is not None and (ids := _identities(found)):
            return f"compute {name}", ids
    what = f"Looking for the workspace {rest.workspace.name}"
    workspace = rest.read(rest.arm(""), what, params={"api-version": _COMPUTE_API})
    return "workspace", [] if workspace is None else _identities(workspace)


def _identities(resource: Answer) -> list[str]:
    identity = resource.at("identity")
    assigned = [one for _, one in identity.members("userAssignedIdentities")]
    return [found for one in (identity, *assigned) if (found := one.optional_text("principalId"))]


def _may_pull(rest: AzureRest, registry: str, principal: str) -> bool:
    """Return whether a role assigned to *principal* or its groups, at the registry or above it, lets it pull."""
    what = f"Reading the roles of {principal}"
    address = f"{rest.cloud.arm}{registry}/providers/Microsoft.Authorization/roleAssignments"
    params = {"api-version": _ROLES_API, "$filter": f"assignedTo('{principal}')"}
    for assignment in rest.items(address, what, params=params):
        scope = assignment.text("properties.scope")
        if not f"{registry}/".lower().startswith(scope.rstrip("/").lower() + "/"):
            continue  # of something below the registry
        address = f"{rest.cloud.arm}{assignment.text('properties.roleDefinitionId')}"
        role = rest.read(address, what, params={"api-version": _ROLES_API})
        permissions = role.each("properties.permissions") if role is not None else ()
        if any(grants_pull(_actions(permission)) for permission in permissions):
            return True
    return False


def _actions(permission: Answer) -> dict[str, list[str]]:
    return {key: permission.list_of_texts(key) for key in ("actions", "notActions", "dataActions", "notDataActions")}


def grants_pull(permission: Mapping[str, Sequence[str]]) -> bool:
    """Return whether one of a role's permissions lets it pull. Pure."""

    def allowed(action: str, given: str, taken: str) -> bool:
        def among(key: str) -> bool:
            return any(fnmatch.fnmatchcase(action.lower(), one.lower()) for one in permission.get(key) or ())

        return among(given) and not among(taken)

    return allowed(_PULL[0], "actions", "notActions") or allowed(_PULL[1], "dataActions", "notDataActions")
