"""Checks of a workspace in Azure: identity, roles, compute, registry, storage. All of them only read."""

from __future__ import annotations

import fnmatch
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import requests

from aml_train.azure.acr import AcrLogin, http_session, location_of, password_of
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.storage import AzureBlobs
from aml_train.azure.clouds import cloud_named
from aml_train.azure.credentials import Assertion, claims_of
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import Fetched, sign_in_to_azure
from aml_train.azure.target import check_compute, check_workspace, login_server
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.answers import REACH, Answer
from aml_train.core.diagnosis import Check, Outcome, failed, ok, skipped, warning
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import answer_of, exchange
from aml_train.image.registry.auth import is_acr

#: az may take a minute for a token, the sign-in in Azure several attempts.
_SIGN_IN_SECONDS: Final = 90.0
_ATTEMPTS: Final = 2
_TIMEOUT: Final = (10.0, 20.0)
#: https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource: the permissions that the caller has.
_PERMISSIONS: Final = {"api-version": "2022-04-01"}
_PREFIX: Final = "Microsoft.MachineLearningServices/workspaces"
#: What a run does, by AzureML's operations
#: (https://learn.microsoft.com/azure/role-based-access-control/permissions/ai-machine-learning): the job, its code, its environment, its
#: model, and the storage's credentials.
_ACTIONS: Final = (
    "jobs/read",
    "jobs/write",
    "jobs/cancel/action",
    "codes/versions/write",
    "environments/versions/write",
    "models/versions/write",
    "datastores/listsecrets/action",
    "computes/read",
)


@dataclass(kw_only=True)
class AzureChecks:
    """The checks of one workspace; each raises ServiceError or InvalidError for what it cannot find.

    Attributes:
        target: the target.
        workspace: its workspace.
        compute: what the job runs on, in the job's words; None for a serverless job.
        nodes: how many nodes the job needs.
        repository: the image's repository in the registry; None if no image is built.
        environ: the process's environment, which chooses the sign-in.
        assertion: fetches federated assertions; None if the caller cannot.
        fetched: receives each token.
        claims: of the token for Azure Resource Manager: who signed in, and in which tenant.
    """

    target: TargetConfig
    workspace: WorkspaceId
    compute: str | None
    nodes: int
    repository: str | None
    environ: Mapping[str, str]
    assertion: Assertion | None
    fetched: Fetched
    claims: Mapping[str, Any] = field(default_factory=dict)

    def checks(self) -> tuple[Check, ...]:
        """Return the checks in their order."""
        return (
            Check(name="sign-in", run=self.check_sign_in, seconds=_SIGN_IN_SECONDS),
            Check(name="workspace", run=self.check_workspace, needs=("sign-in",)),
            Check(name="workspace-role", run=self.check_role, needs=("workspace",)),
            Check(name="compute", run=self.check_compute, needs=("workspace",)),
            Check(name="registry", run=self.check_registry, needs=("workspace",)),
            Check(name="registry-role", run=self.check_registry_role, needs=("registry",)),
            Check(name="storage", run=self.check_storage, needs=("workspace",)),
        )

    @cached_property
    def rest(self) -> AzureRest:
        """The workspace; the check of the sign-in opens it, and the others follow."""
        cloud = cloud_named(self.environ.get("AZURE_ENVIRONMENT", ""))
        identity = sign_in_to_azure(
            self.environ,
            cloud=cloud,
            assertion=self.assertion,
            fetched=self.fetched,
            named=self.target.sign_in,
            subscription=self.workspace.subscription_id,
        )
        return AzureRest(self.workspace, identity, cloud, attempts=_ATTEMPTS)

    def check_sign_in(self) -> Outcome:
        """Sign in, and show who and in which tenant."""
        identity = self.rest.credential
        self.claims = claims = claims_of(identity.token(self.rest.cloud.scope))
        application = f"application {claims.get('appid') or claims.get('azp') or 'unknown'}"
        names = (claims.get(name) for name in ("upn", "unique_name", "preferred_username"))
        who = next(filter(None, names), f"{application}, object {claims.get('oid') or 'unknown'}")
        return ok(f"{who}, tenant {claims.get('tid') or 'unknown'}, with {identity.title}")

    def check_workspace(self) -> Outcome:
        """Look the workspace up, as a run does."""
        check_workspace(self.rest)
        return ok(f"{self.workspace.name} in {self.rest.location() or 'an unknown region'}")

    def check_role(self) -> Outcome:
        """Compare the identity's permissions with what a run does."""
        command = self.assign("AzureML Data Scientist", self.workspace.path)
        try:
            address = self.rest.arm("/providers/Microsoft.Authorization/permissions")
            what = "Reading the permissions in the workspace"
            listed = self.rest.items(address, what, params=_PERMISSIONS, required=True)
            known = [permission_of(one) for one in listed]
        except ServiceError as error:
            if error.transient:
                raise
            found = f"the identity may not read its permissions in {self.workspace.name}"
            return warning(found, f"If a run is refused: {command}")
        lacking = [one for one in _ACTIONS if not any(allows(each, f"{_PREFIX}/{one}") for each in known)]
        if lacking:
            return failed(f"the identity may not: {', '.join(lacking)}", command)
        return ok(f"jobs, code, environments and models in {self.workspace.name}")

    def check_compute(self) -> Outcome:
        """Look the compute up, or check that it can be created."""
        cluster = self.target.cluster
        if cluster is not None and self.rest.find_compute(cluster.name) is None:
            return ok(f"{cluster.name} ({cluster.size}) is created by the first run")
        found = check_compute(self.rest, self.compute or "")
        if found is None:
            return skipped("the job is serverless, or names a resource id")
        name, kind = found.text("name"), found.optional_text("properties.computeType")
        most = found.whole("properties.properties.scaleSettings.maxNodeCount")
        if most is not None and most < self.nodes:
            where = f"--workspace-name {self.workspace.name} --resource-group {self.workspace.resource_group}"
            command = f"az ml compute update --name {name} --max-instances {self.nodes} {where}"
            return failed(f"{name} grows to {most} nodes, and the job needs {self.nodes}", command)
        parts = [kind, found.optional_text("properties.properties.vmSize"), f"up to {most} nodes" if most else None]
        text = f"{name}: {', '.join(filter(None, parts))}"
        state = found.optional_text("properties.provisioningState") or "Succeeded"
        return ok(text) if state == "Succeeded" else warning(f"{text}; it is {state}")

    def check_registry(self) -> Outcome:
        """Find the registry that images are pushed to."""
        if self.target.registry:
            return ok(f"{self.target.registry}, of the configuration")
        # AzureML makes one with the first environment that it builds.
        if self.repository is None and not self.rest.describe().optional_text("containerRegistry"):
            return skipped(f"the workspace {self.workspace.name} has no registry; no image is built")
        return ok(f"{login_server(self.rest)}, the workspace's")

    def check_registry_role(self) -> Outcome:
        """Get a token of the registry, which says what the identity may do there."""
        if (repository := self.repository) is None:
            return skipped("no image is built")
        host = self.target.registry or login_server(self.rest)
        if self.target.registry_user is not None or not is_acr(host):
            return self._other_registry(host, repository)
        own = None if self.target.registry else self.rest.describe().optional_text("containerRegistry")
        push = self.assign("AcrPush", own or "REGISTRY_ID")
        try:
            granted = self._granted(host, repository)
        except ServiceError as error:
            if error.transient:
                raise
            return failed(error.message, push)
        if not {"pull", "push"} <= granted:
            allowed = f"it may {', '.join(sorted(granted))}" if granted else "it may nothing there"
            return failed(f"the identity may not push to {host}/{repository}: {allowed}", push)
        if "delete" not in granted:
            found = f"push to {host}/{repository}, not delete: candidates of builds stay there"
            return warning(found, self.assign("AcrDelete", own or "REGISTRY_ID"))
        return ok(f"pull, push and delete in {host}/{repository}")

    def _granted(self, host: str, repository: str) -> set[str]:
        """Return the actions in the registry's access token.

        Source: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md, and the token's claim ``access``
        (https://distribution.github.io/distribution/spec/auth/jwt).
        """
        session = http_session(host, self.environ)
        token_of = partial(self.rest.credential.token, self.rest.cloud.registry_scope)
        form = {
            "grant_type": "refresh_token",
            "service": host,
            "scope": f"repository:{repository}:pull,push,delete",
            "refresh_token": AcrLogin(host, token_of, session=session, fetched=self.fetched)().identity_token,
        }
        url = f"https://{host}/oauth2/token"
        try:
            response = exchange(session, "POST", url, data=form, timeout=_TIMEOUT, allow_redirects=False)
        except requests.RequestException as error:
            why = f"The registry {host} does not answer: {type(error).__name__}"
            raise ServiceError(why, hint=REACH) from error
        if response.status_code in (401, 403):
            return set()

        def fail(problem: str) -> ServiceError:
            return ServiceError(f"The registry {host} gave no token: its answer {response.status_code} {problem}.")

        token = answer_of(response, fail, fail).text("access_token")
        self.fetched(token)
        return actions_in(claims_of(token), repository)

    def _other_registry(self, host: str, repository: str) -> Outcome:
        """Read from a registry that is not signed in to by the identity."""
        location = location_of(
            host,
            self.target,
            password=password_of(self.target, self.environ),
            sign_in=self.rest.credential,
            scope=self.rest.cloud.registry_scope,
            outer=self.environ,
            listener=lambda _event: None,
            fetched=self.fetched,
        )
        with location.client() as registry:
            registry.head_manifest(repository, "latest")
        return ok(f"{host} lets {repository} be read; whether it may be pushed to shows at the first push")

    def check_storage(self) -> Outcome:
        """Read the default datastore's container, in the way of ``aml-train data``."""
        data = DataWorkspace(self.rest)
        access = data.access(data.default_datastore())
        storage = AzureBlobs(access, self.rest.credential, self.rest.session, tries=1, timeout=_TIMEOUT)
        storage.find("aml-train/doctor")
        by = "its key" if access.key else "its signature" if access.sas else "the identity"
        return ok(f"{storage.place} is reachable and may be read, with {by}")

    def assign(self, role: str, scope: str) -> str:
        """Return the command that assigns *role* at a resource to the identity."""
        who = "--assignee CLIENT_ID"
        if principal := self.claims.get("oid"):
            person = self.claims.get("idtyp") == "user" or self.claims.get("upn") or self.claims.get("unique_name")
            who = f"--assignee-object-id {principal} --assignee-principal-type {'User' if person else 'ServicePrincipal'}"
        return f"az role assignment create {who} --role {shlex.quote(role)} --scope {shlex.quote(scope)}"


Permission = Mapping[str, Sequence[str]]
"""Patterns under ``actions`` and ``notActions`` (https://learn.microsoft.com/azure/role-based-access-control/role-definitions)."""


def permission_of(answer: Answer) -> Permission:
    """Return one of the permissions of a caller."""
    return {key: answer.list_of_texts(key) for key in ("actions", "notActions")}


def allows(permission: Permission, action: str) -> bool:
    """Return whether a permission includes *action*."""
    # AzureML Data Scientist excludes computes/*/write, and so the creation of computes, which is computes/write:
    # https://learn.microsoft.com/azure/machine-learning/how-to-assign-roles#default-roles.
    taken = [form for one in permission.get("notActions") or () for form in (one, one.replace("/*/", "/"))]
    return _matches(action, permission.get("actions") or ()) and not _matches(action, taken)


def _matches(action: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), one.lower()) for one in patterns)


def actions_in(claims: Mapping[str, Any], repository: str) -> set[str]:
    """Return what a registry's token allows in *repository*. Pure."""
    entries = claims.get("access")
    granted: set[str] = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == repository and isinstance(entry.get("actions"), list):
            granted |= {str(one) for one in entry["actions"]}
    return granted | {"pull", "push", "delete"} if "*" in granted else granted
