"""The emulator's own interface: health, info, status, reset."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from azure.core.exceptions import AzureError
from starlette.concurrency import run_in_threadpool

from aml_emulator.api.errors import admin_answer
from aml_emulator.context import Context
from aml_emulator.domain.clusters import cluster_summaries, create_default_cluster
from aml_emulator.domain.jobs.compute import is_low_priority, shown_compute
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.registries import count_shared, create_registry, delete_registry
from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import RunError
from aml_emulator.identity.federation import FederatedCredential
from aml_emulator.network.fault_injection import Rule
from aml_emulator.network.requests_log import KEPT_REQUESTS
from aml_emulator.reading import whole
from aml_emulator.store.runs import Run

PREEMPTED: Final = (
    "AzureMLCompute job failed.\nPreemptionError: Nodes of this job got pre-empted. Check if the run has failed or"
    " restarted.\n\tReason: Received pre-emption warning signal"
)
_WORD: Final = re.compile(r"[A-Za-z]{1,64}")
_MOST_TEXT: Final = 4000

Answer = tuple[int, dict[str, Any]]


class Provoked:
    """Answers ``POST /_emulator/jobs/NAME/WHAT``."""

    def __init__(self, workspace: Workspace, jobs: JobService) -> None:
        self._workspace = workspace
        self._jobs = jobs

    def answer(self, name: str, what: str, query: Mapping[str, str]) -> Answer:
        """Provoke it: 404 for an unknown job or event, 409 if the job has ended."""
        run = self._workspace.store.runs.get(name)
        if run is None or run.job is None:
            return 404, {"error": f"there is no job {name}"}
        if run.terminal:
            return 409, {"error": f"the job {name} has ended: {run.status}"}
        match what:
            case "preempt":
                return self._preempt(run, force=query.get("force") == "1")
            case "fail":
                return self._fail(run, query)
            case "show":
                return self._show(run, query.get("status"))
            case _:
                return 404, {"error": f"nothing is called {what}: known are preempt, fail and show"}

    def _preempt(self, run: Run, *, force: bool) -> Answer:
        job = run.job or {}
        if not force and not is_low_priority(self._workspace, job):
            why = f"the nodes of {shown_compute(job)} are dedicated: Azure takes back those of low priority only; force=1 does it all the same"
            return 400, {"error": why}
        return self._ended(run, RunError(code="UserError", message=PREEMPTED))

    def _fail(self, run: Run, query: Mapping[str, str]) -> Answer:
        code, message = query.get("code", "SystemError"), query.get("message", "The job failed on purpose.")
        if not _WORD.fullmatch(code) or len(message) > _MOST_TEXT:
            return 400, {"error": f"code: letters; message: at most {_MOST_TEXT} characters"}
        return self._ended(run, RunError(code=code, message=message))

    def _ended(self, run: Run, error: RunError) -> Answer:
        self._workspace.shown.show(run.id, None)
        if not self._jobs.runner.fail(run.id, error):
            return 409, {"error": f"the job {run.id} is ending"}
        return 200, {"job": run.id, "code": error.code, "message": error.message}

    def _show(self, run: Run, word: str | None) -> Answer:
        if word is not None and not _WORD.fullmatch(word):
            return 400, {"error": "status: a word of letters"}
        self._workspace.shown.show(run.id, word)
        return 200, {"job": run.id, "status": self._workspace.shown.status(run)}


logger = logging.getLogger(__name__)

_FAULTS = "/_emulator/faults"
_ENVIRONMENTS = "/_emulator/environments"
_REGISTRIES = "/_emulator/registries"
_FEDERATION = "/_emulator/federated-credentials"
_ROLES = "/_emulator/roles"
_JOB = re.compile(r"/_emulator/jobs/([^/]+)/([a-z-]+)")
CANCEL_SECONDS = 300.0
"""How long a reset waits for the jobs that it cancels. One takes seconds; the engine of a busy machine takes more."""
POLL_SECONDS = 0.1


class Admin:
    """Answers ``/_emulator/...``.

    Args:
        ca_pem: the authority that clients are to trust.
        registry_engine_name: what the container engine calls the registry.
        tasks: the registry's runs; None for a registry without ACR Tasks.
        max_jobs: at most so many jobs run at once.
        children_alive: whether Azurite and the registry run.
    """

    def __init__(
        self,
        *,
        context: Context,
        jobs: JobService,
        version: str,
        ca_pem: str,
        registry_engine_name: str,
        max_jobs: int,
        children_alive: Callable[[], bool],
        tasks: RegistryTasks | None = None,
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._version = version
        self._ca_pem = ca_pem
        self._registry_engine_name = registry_engine_name
        self._max_jobs = max_jobs
        self._children_alive = children_alive
        self._tasks = tasks
        self._started = context.clock()
        self._provoke = Provoked(context, jobs)

    async def answer(self, method: str, target: str) -> tuple[int, bytes]:
        """Return status and JSON for one request."""
        path, _, raw_query = target.partition("?")
        query = {name: values[-1] for name, values in parse_qs(raw_query).items()}
        faults = self._context.faults
        handlers: dict[tuple[str, str], Callable[[], tuple[int, dict[str, Any]]]] = {
            ("GET", "/_emulator/health"): self.health,
            ("GET", "/_emulator/info"): self.info,
            ("GET", "/_emulator/status"): self.status,
            ("POST", "/_emulator/reset"): lambda: self.reset(force=query.get("force") == "1"),
            ("GET", _FAULTS): lambda: (200, {"faults": faults.listed()}),
            ("POST", _FAULTS): lambda: self.add_fault(query),
            ("DELETE", _FAULTS): lambda: self.remove_faults(query),
            ("GET", _ENVIRONMENTS): self.environments,
            ("POST", _ENVIRONMENTS): lambda: self.name_environment(query),
            ("DELETE", _ENVIRONMENTS): self.forget_environments,
            ("GET", _REGISTRIES): self.registries,
            ("POST", _REGISTRIES): lambda: self.create_registry(query),
            ("DELETE", _REGISTRIES): lambda: self.delete_registry(query),
            ("GET", "/_emulator/requests"): lambda: self.requests(query),
            ("GET", _FEDERATION): self.federation,
            ("POST", _FEDERATION): lambda: self.trust(query),
            ("DELETE", _FEDERATION): self.trust_all,
            ("GET", _ROLES): self.roles,
            ("POST", _ROLES): lambda: self.set_roles(query),
            ("DELETE", _ROLES): self.reset_roles,
        }
        handler = handlers.get((method, path)) or self._provoked(method, path, query)
        if handler is None:
            status, value = 404, {"error": f"no such operation: {method} {path}"}
        else:
            status, value = await run_in_threadpool(admin_answer, handler, f"{method} {path}")
        return status, json.dumps(value).encode("utf-8") + b"\n"

    def _provoked(
        self, method: str, path: str, query: Mapping[str, str]
    ) -> Callable[[], tuple[int, dict[str, Any]]] | None:
        """Return the handler of ``/_emulator/jobs/NAME/WHAT``, None for another path."""
        match = _JOB.fullmatch(path)
        if method != "POST" or match is None:
            return None
        name, what = unquote(match[1]), match[2]
        logger.warning("PROVOKED on purpose: %s of the job %s %s", what, name, dict(query))
        return lambda: self._provoke.answer(name, what, query)

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return 200 if everything answers, 503 with what does not."""
        missing = [] if self._children_alive() else ["storage or registry"]
        if not self._jobs.runner.engine_ready():
            missing.append("container engine")
        try:
            self._context.blobs.ping()
        except AzureError:
            missing.append("Blob storage")
        return (503, {"status": "not ready", "missing": missing}) if missing else (200, {"status": "ready"})

    def info(self) -> tuple[int, dict[str, Any]]:
        """Return what a client must know to sign in and to trust."""
        identity = self._context.identity
        return 200, {
            "version": self._version,
            "instance": identity.instance,
            "tenant_id": identity.tenant_id,
            "client_id": identity.client_id,
            "client_secret": identity.client_secret,
            "subscription_id": identity.subscription_id,
            "resource_group": identity.resource_group,
            "workspace": identity.workspace,
            "location": identity.location,
            "compute": identity.compute,
            "registry": {"login_server": identity.login_server, "engine": self._registry_engine_name},
            "storage_account": identity.storage_account,
            "api_host": identity.api_host,
            "ca_pem": self._ca_pem,
        }

    def status(self) -> tuple[int, dict[str, Any]]:
        """Return the status: counts, runs, clusters and settings."""
        return 200, {
            "uptime_seconds": round(self._context.clock() - self._started, 1),
            "jobs": self._context.store.runs.count_by_status(),
            "active": list(self._jobs.runner.active()),
            "clusters": cluster_summaries(self._context),
            "assets": self._context.store.assets.count(),
            "unsupported": self._context.unsupported.seen(),
            "requests": self._context.requests.total,
            "faults": self._context.faults.listed(),
        }

    def add_fault(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Have requests go wrong; 400 where the query is no rule."""
        try:
            rule = Rule.parse(query)
        except ValueError as error:
            return 400, {"error": str(error)}
        number = self._context.faults.add(rule)
        logger.warning("FAULT %d is put in on purpose from now on: %s", number, dict(query))
        return 200, {"id": number, "faults": self._context.faults.listed()}

    def remove_faults(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Remove one fault (``id``) or all; 404 where there is none of that number."""
        text = query.get("id")
        number = None if text is None else whole(text)
        if text is not None and number is None:
            return 400, {"error": f"id: a number, not '{text}'"}
        removed = self._context.faults.remove(number)
        if text is not None and not removed:
            return 404, {"error": f"there is no fault {text}"}
        logger.warning("faults removed: %d", removed)
        return 200, {"removed": removed, "faults": self._context.faults.listed()}

    def requests(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the last requests after number ``since``, at most ``limit``."""
        since, limit = whole(query.get("since", "0")), whole(query.get("limit", str(KEPT_REQUESTS)))
        if since is None or limit is None:
            return 400, {"error": "since and limit: numbers"}
        log = self._context.requests
        return 200, {"total": log.total, "requests": log.since(since, limit=limit)}

    def environments(self) -> tuple[int, dict[str, Any]]:
        """Return the images of curated environments by pattern, the first counts."""
        return 200, {"environments": self._context.environments.listed()}

    def name_environment(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Let an ``image`` play the curated environments of a ``pattern``; 400 without."""
        try:
            self._context.environments.name(query.get("pattern", ""), query.get("image", ""))
        except ValueError as error:
            return 400, {"error": str(error)}
        return self.environments()

    def forget_environments(self) -> tuple[int, dict[str, Any]]:
        """Forget the images that were named since the beginning."""
        self._context.environments.forget()
        return self.environments()

    def registries(self) -> tuple[int, dict[str, Any]]:
        """Return the registries, with the number of versions of assets in each."""
        return 200, {"registries": count_shared(self._context)}

    def create_registry(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Create the registry ``name``, or change its ``description``; 400 if refused."""
        properties: dict[str, Any] = {"tags": {}, "description": query.get("description")}
        create_registry(self._context, query.get("name", ""), properties)
        return self.registries()

    def delete_registry(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Delete the registry ``name``; 404 if there is none."""
        if not delete_registry(self._context, query.get("name", "")):
            return 404, {"error": f"there is no registry {query.get('name', '')}"}
        return self.registries()

    def federation(self) -> tuple[int, dict[str, Any]]:
        """Return the federated credentials; with none, all issuers are trusted."""
        return 200, {"federated_credentials": [asdict(one) for one in self._context.federation.credentials]}

    def trust(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Add a federated credential; 400 if its fields are wrong."""
        try:
            self._context.federation.add(FederatedCredential(**query))
        except (TypeError, ValueError) as error:
            return 400, {"error": str(error)}
        return self.federation()

    def trust_all(self) -> tuple[int, dict[str, Any]]:
        """Forget all federated credentials."""
        self._context.federation.clear()
        return self.federation()

    def roles(self) -> tuple[int, dict[str, Any]]:
        """Return the roles of the service principal, by place."""
        return 200, {"roles": self._context.roles.listed()}

    def set_roles(self, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Replace the roles at a ``place`` by ``roles``, separated by commas."""
        names = tuple(name.strip() for name in query.get("roles", "").split(",") if name.strip())
        try:
            self._context.roles.set(query.get("place", ""), names)
        except ValueError as error:
            return 400, {"error": str(error)}
        logger.warning("ROLES at %s are from now on: %s", query["place"], ", ".join(names) or "none")
        return self.roles()

    def reset_roles(self) -> tuple[int, dict[str, Any]]:
        """Restore the roles of the beginning."""
        self._context.roles.reset()
        return self.roles()

    def reset(self, *, force: bool) -> tuple[int, dict[str, Any]]:
        """Delete every job, asset and blob; identity and names stay.

        Args:
            force: cancel jobs and runs of ACR Tasks; without it they make the answer 409.
        """
        refused = self.end_jobs(force=force)
        if refused is not None:
            return 409, {"error": refused}
        self._context.store.clear()
        self._context.fleet.clear()
        self.delete_files()
        prepare_workspace(self._context, max_jobs=self._max_jobs)
        logger.warning("everything was reset in the workspace %s", self._context.identity.workspace)
        return 200, {"status": "reset"}

    def end_jobs(self, *, force: bool) -> str | None:
        """Cancel the jobs that run and wait for their end; return why not, None if done."""
        runner = self._jobs.runner
        if (active := self._active()) and not force:
            return f"jobs are running: {', '.join(active)}; cancel them, or reset with force=1"
        for run_id in runner.active():
            self._jobs.cancel(run_id)
        if self._tasks is not None:
            self._tasks.cancel_all()
        patience = time.monotonic() + CANCEL_SECONDS
        while active := self._active():
            if time.monotonic() > patience:
                return f"jobs do not end: {', '.join(active)}"
            time.sleep(POLL_SECONDS)
        return None

    def delete_files(self) -> None:
        """Delete the images that were built of environments, and the workspace's blobs."""
        self._jobs.runner.forget_images()
        blobs = self._context.blobs
        for container in blobs.containers():
            if self._is_own(container):
                blobs.delete_container(container)

    def _is_own(self, container: str) -> bool:
        """Return whether a container is deleted with the workspace's state.

        Clients make containers, too: those are the first workspace's.
        """
        identity, (first, *others) = self._context.identity, self._context.workspaces()
        if identity.workspace_id != first.workspace_id:
            return identity.owns(container)
        return not any(other.owns(container) for other in others)

    def _active(self) -> tuple[str, ...]:
        """Return the jobs, the runs of ACR Tasks and the builds of environments that have not ended."""
        return (*self._jobs.runner.active(), *(self._tasks.active() if self._tasks is not None else ()))


def prepare_workspace(context: Context, *, max_jobs: int) -> None:
    """Make a workspace's own resources: datastores' containers and compute target."""
    with ThreadPoolExecutor(len(context.own_containers)) as pool:
        list(pool.map(context.blobs.create_container, context.own_containers.values()))
    create_default_cluster(context, name=context.identity.compute, max_nodes=max_jobs)
