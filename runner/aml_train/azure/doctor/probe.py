"""The requests that the checks of a workspace share; all of them only read."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.azure.clouds import Cloud
from aml_train.azure.credentials import Assertion
from aml_train.azure.http import WorkspaceId, read_answer, refusal_of
from aml_train.azure.sign_in import Fetched, SignIn, sign_in_to_azure
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.jobs.spec import SERVERLESS

ML: Final = "2024-10-01-preview"
ATTEMPTS: Final = 2


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The parts of a configuration that matter in Azure.

    Attributes:
        target: the target.
        workspace: its workspace.
        compute: what the job runs on, in the job's words; None for a serverless job.
        size: the VM size of a serverless job.
        nodes: how many nodes the job needs.
        repository: the image's repository in the registry; None if no image is built.
        needs_compute: whether the job cannot be serverless, as runs of the SDK v1.
    """

    target: TargetConfig
    workspace: WorkspaceId
    compute: str | None
    size: str | None = None
    nodes: int = 1
    repository: str | None = None
    needs_compute: bool = False

    @property
    def serverless(self) -> bool:
        """Whether AzureML chooses the nodes."""
        name = (self.compute or "").removeprefix("azureml:")
        return name in ("", SERVERLESS)

    @property
    def compute_name(self) -> str | None:
        """The compute's name, if it is one of the workspace."""
        name = (self.compute or "").removeprefix("azureml:")
        return name if name and "/" not in name and name != SERVERLESS else None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of Azure Resource Manager, success or not."""

    status: int
    code: str
    message: str
    answer: Answer | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class Probe:
    """Signs in once and reads; the checks fill in what later ones need.

    Args:
        wanted: what is looked for.
        cloud: where.
        environ: the process's environment.
        assertion: fetches federated assertions; None if the caller cannot.
        fetched: receives each token.
    """

    def __init__(
        self,
        wanted: Wanted,
        cloud: Cloud,
        *,
        environ: Mapping[str, str],
        assertion: Assertion | None,
        fetched: Fetched,
    ) -> None:
        self.wanted = wanted
        self.cloud = cloud
        self.environ = environ
        self.assertion = assertion
        self.fetched = fetched
        #: Of the token for Azure Resource Manager: who signed in, and in which tenant.
        self.claims: Mapping[str, Any] = {}
        self.resource: Answer | None = None
        self.registry_host = ""
        self.registry_id = ""
        self._lock = threading.Lock()
        self._sign_in: SignIn | None = None
        self._rest: AzureRest | None = None

    def sign_in(self) -> SignIn:
        """Return the identity.

        Raises:
            ServiceError: there is nothing to sign in with.
            InvalidError: the choice is unknown or ambiguous.
        """
        with self._lock:
            if self._sign_in is None:
                self._sign_in = sign_in_to_azure(
                    self.environ,
                    cloud=self.cloud,
                    assertion=self.assertion,
                    fetched=self.fetched,
                    named=self.wanted.target.sign_in,
                    subscription=self.wanted.workspace.subscription_id,
                )
            return self._sign_in

    def rest(self) -> AzureRest:
        """Return the workspace over REST."""
        identity = self.sign_in()
        with self._lock:
            if self._rest is None:
                self._rest = AzureRest(self.wanted.workspace, identity, self.cloud)
            return self._rest

    def get(self, path: str, what: str, version: str, **query: str) -> Reply:
        """GET *path* of Azure Resource Manager.

        Raises:
            ServiceError: no answer, a transient failure, or a success that is no JSON.
        """
        if not path.startswith("/"):
            raise ServiceError(
                f"{what}: {path!r} is no resource id."
            )  # else it would name another host, for our token
        url = f"{self.cloud.arm}{path}"
        response = self.rest().call("GET", url, what, params={"api-version": version, **query}, attempts=ATTEMPTS)
        if response.ok:
            answer = read_answer(response, what)
            return Reply(status=response.status_code, code="", message="", answer=answer, headers=response.headers)
        code, message = refusal_of(response)
        message = " ".join(message.split())[:600]
        return Reply(status=response.status_code, code=code, message=message, answer=None, headers=response.headers)

    def workspace_path(self, below: str = "") -> str:
        """Return the path of the workspace's resource, or of something below it."""
        return f"{self.wanted.workspace.path}{below}"

    def assign(self, role: str, scope: str) -> str:
        """Return the command that assigns *role* at a resource to the identity."""
        who = "--assignee CLIENT_ID"
        if principal := self.claims.get("oid"):
            person = self.claims.get("idtyp") == "user" or self.claims.get("upn") or self.claims.get("unique_name")
            who = f"--assignee-object-id {principal} --assignee-principal-type {'User' if person else 'ServicePrincipal'}"
        return f"az role assignment create {who} --role {shlex.quote(role)} --scope {shlex.quote(scope)}"

    def at_group(self) -> str:
        """Return the options of az that name the resource group and the subscription."""
        place = self.wanted.workspace
        return f"--resource-group {place.resource_group} --subscription {place.subscription_id}"

    def at_workspace(self) -> str:
        """Return the options of az that name the workspace."""
        return f"--workspace-name {self.wanted.workspace.name} {self.at_group()}"

    def key(self, name: str) -> str:
        """Return the path of a target's key in aml-train.yml."""
        return f"targets.{self.wanted.target.name}.{name}"
