"""The emulator's own interface, for one workspace: health, info, status, faults, reset."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import unquote

from azure.core.exceptions import AzureError

from aml_emulator.context import Context
from aml_emulator.domain.clusters import cluster_summaries, create_default_cluster
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.domain.jobs.compute import is_low_priority, shown_compute
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.registries import count_shared, create_registry, delete_registry
from aml_emulator.domain.registry_tasks import RegistryTasks
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

logger = logging.getLogger(__name__)

Query = Mapping[str, str]

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

    def answer(self, method: str, path: str, query: Query) -> tuple[int, dict[str, Any]]:
        """Return status and value for one request.

        Raises:
            DomainError: it is refused.
        """
        operation = f"{method} {path.removeprefix('/_emulator/')}"
        if operation == "GET health":
            return self.health()
        if method == "POST" and (match := _JOB.fullmatch(path)) is not None:
            return 200, self.provoke(unquote(match[1]), match[2], query)
        handlers: dict[str, Callable[[], dict[str, Any]]] = {
            "GET info": self.info,
            "GET status": self.status,
            "POST reset": lambda: self.reset(force=query.get("force") == "1"),
            "GET faults": self.faults,
            "POST faults": lambda: self.add_fault(query),
            "DELETE faults": lambda: self.remove_faults(query),
            "GET environments": self.environments,
            "POST environments": lambda: self.name_environment(query),
            "DELETE environments": self.forget_environments,
            "GET registries": self.registries,
            "POST registries": lambda: self.create_registry(query),
            "DELETE registries": lambda: self.delete_registry(query),
            "GET requests": lambda: self.requests(query),
            "GET federated-credentials": self.federation,
            "POST federated-credentials": lambda: self.trust(query),
            "DELETE federated-credentials": self.trust_all,
            "GET roles": self.roles,
            "POST roles": lambda: self.set_roles(query),
            "DELETE roles": self.reset_roles,
        }
        if operation not in handlers:
            raise NotFoundError(path, message=f"no such operation: {method} {path}")
        return 200, handlers[operation]()

    def provoke(self, name: str, what: str, query: Query) -> dict[str, Any]:
        """Have something happen to a job that has not ended."""
        logger.warning("PROVOKED on purpose: %s of the job %s %s", what, name, dict(query))
        run = self._context.store.runs.get(name)
        if run is None or run.job is None:
            raise NotFoundError(name, message=f"there is no job {name}")
        if run.terminal:
            raise ConflictError(f"the job {name} has ended: {run.status}")
        match what:
            case "preempt":
                return self._preempt(run, force=query.get("force") == "1", fail=query.get("fail") == "1")
            case "fail":
                return self._fail(run, query)
            case "show":
                return self._show(run, query.get("status"))
            case _:
                raise NotFoundError(what, message=f"nothing is called {what}: known are preempt, fail and show")

    def _preempt(self, run: Run, *, force: bool, fail: bool) -> dict[str, Any]:
        """Take a job's nodes away: it is queued again, which is the rule on Azure, or fails, which happens there, too."""
        job = run.job or {}
        if not force and not is_low_priority(self._context, job):
            raise InvalidError(
                f"the nodes of {shown_compute(job)} are dedicated: Azure takes back those of low priority only; force=1 does"
                " it all the same"
            )
        if fail:
            return self._ended(run, RunError(code="UserError", message=PREEMPTED))
        self._context.shown.show(run.id, None)
        if not self._jobs.runner.preempt(run.id):
            raise ConflictError(f"the job {run.id} is {run.status} and has no nodes to lose; fail=1 lets it fail")
        return {"job": run.id}

    def _fail(self, run: Run, query: Query) -> dict[str, Any]:
        code, message = query.get("code", "SystemError"), query.get("message", "The job failed on purpose.")
        if not _WORD.fullmatch(code) or len(message) > _MOST_TEXT:
            raise InvalidError(f"code: letters; message: at most {_MOST_TEXT} characters")
        return self._ended(run, RunError(code=code, message=message))

    def _ended(self, run: Run, error: RunError) -> dict[str, Any]:
        self._context.shown.show(run.id, None)
        if not self._jobs.runner.fail(run.id, error):
            raise ConflictError(f"the job {run.id} is ending")
        return {"job": run.id, "code": error.code, "message": error.message}

    def _show(self, run: Run, word: str | None) -> dict[str, Any]:
        if word is not None and not _WORD.fullmatch(word):
            raise InvalidError("status: a word of letters")
        self._context.shown.show(run.id, word)
        return {"job": run.id, "status": self._context.shown.status(run)}

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

    def info(self) -> dict[str, Any]:
        """Return what a client must know to sign in and to trust."""
        identity = self._context.identity
        return {
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

    def status(self) -> dict[str, Any]:
        """Return the status: counts, runs, clusters and settings."""
        return {
            "uptime_seconds": round(self._context.clock() - self._started, 1),
            "jobs": self._context.store.runs.count_by_status(),
            "active": list(self._jobs.runner.active()),
            "clusters": cluster_summaries(self._context),
            "assets": self._context.store.assets.count(),
            "unsupported": self._context.unsupported.seen(),
            "requests": self._context.requests.total,
            **self.faults(),
        }

    def faults(self) -> dict[str, Any]:
        """Return the faults."""
        return {"faults": self._context.faults.listed()}

    def add_fault(self, query: Query) -> dict[str, Any]:
        """Have requests go wrong."""
        with _refusing():
            rule = Rule.parse(query)
        number = self._context.faults.add(rule)
        logger.warning("FAULT %d is put in on purpose from now on: %s", number, dict(query))
        return {"id": number, **self.faults()}

    def remove_faults(self, query: Query) -> dict[str, Any]:
        """Remove one fault (``id``) or all."""
        text = query.get("id")
        number = None if text is None else whole(text)
        if text is not None and number is None:
            raise InvalidError(f"id: a number, not '{text}'")
        removed = self._context.faults.remove(number)
        if text is not None and not removed:
            raise NotFoundError(text, message=f"there is no fault {text}")
        logger.warning("faults removed: %d", removed)
        return {"removed": removed, **self.faults()}

    def requests(self, query: Query) -> dict[str, Any]:
        """Return the last requests after number ``since``, at most ``limit``."""
        since, limit = whole(query.get("since", "0")), whole(query.get("limit", str(KEPT_REQUESTS)))
        if since is None or limit is None:
            raise InvalidError("since and limit: numbers")
        log = self._context.requests
        return {"total": log.total, "requests": log.since(since, limit=limit)}

    def environments(self) -> dict[str, Any]:
        """Return the images of curated environments by pattern, the first counts."""
        return {"environments": self._context.environments.listed()}

    def name_environment(self, query: Query) -> dict[str, Any]:
        """Let an ``image`` play the curated environments of a ``pattern``."""
        with _refusing():
            self._context.environments.name(query.get("pattern", ""), query.get("image", ""))
        return self.environments()

    def forget_environments(self) -> dict[str, Any]:
        """Forget the images that were named since the beginning."""
        self._context.environments.forget()
        return self.environments()

    def registries(self) -> dict[str, Any]:
        """Return the registries, with the number of versions of assets in each."""
        return {"registries": count_shared(self._context)}

    def create_registry(self, query: Query) -> dict[str, Any]:
        """Create the registry ``name``, or change its ``description``."""
        properties: dict[str, Any] = {"tags": {}, "description": query.get("description")}
        create_registry(self._context, query.get("name", ""), properties)
        return self.registries()

    def delete_registry(self, query: Query) -> dict[str, Any]:
        """Delete the registry ``name``."""
        name = query.get("name", "")
        if not delete_registry(self._context, name):
            raise NotFoundError(name, message=f"there is no registry {name}")
        return self.registries()

    def federation(self) -> dict[str, Any]:
        """Return the federated credentials; with none, all issuers are trusted."""
        return {"federated_credentials": [asdict(one) for one in self._context.federation.credentials]}

    def trust(self, query: Query) -> dict[str, Any]:
        """Add a federated credential."""
        with _refusing():
            self._context.federation.add(FederatedCredential(**query))
        return self.federation()

    def trust_all(self) -> dict[str, Any]:
        """Forget all federated credentials."""
        self._context.federation.clear()
        return self.federation()

    def roles(self) -> dict[str, Any]:
        """Return the roles of the service principal, by place."""
        return {"roles": self._context.roles.listed()}

    def set_roles(self, query: Query) -> dict[str, Any]:
        """Replace the roles at a ``place`` by ``roles``, separated by commas."""
        names = tuple(name.strip() for name in query.get("roles", "").split(",") if name.strip())
        with _refusing():
            self._context.roles.set(query.get("place", ""), names)
        logger.warning("ROLES at %s are from now on: %s", query["place"], ", ".join(names) or "none")
        return self.roles()

    def reset_roles(self) -> dict[str, Any]:
        """Restore the roles of the beginning."""
        self._context.roles.reset()
        return self.roles()

    def reset(self, *, force: bool) -> dict[str, Any]:
        """Delete every job, asset and blob; identity and names stay.

        Args:
            force: cancel jobs and runs of ACR Tasks; without it they make the answer 409.
        """
        self.end_jobs(force=force)
        self._context.store.clear()
        self._context.fleet.clear()
        self.delete_files()
        prepare_workspace(self._context, max_jobs=self._max_jobs)
        logger.warning("everything was reset in the workspace %s", self._context.identity.workspace)
        return {"status": "reset"}

    def end_jobs(self, *, force: bool) -> None:
        """Cancel the jobs that run and wait for their end.

        Raises:
            ConflictError: there are some, and *force* is not set; or they do not end.
        """
        runner = self._jobs.runner
        if (active := self._active()) and not force:
            raise ConflictError(f"jobs are running: {', '.join(active)}; cancel them, or reset with force=1")
        for run_id in runner.active():
            self._jobs.cancel(run_id)
        if self._tasks is not None:
            self._tasks.cancel_all()
        patience = time.monotonic() + CANCEL_SECONDS
        while active := self._active():
            if time.monotonic() > patience:
                raise ConflictError(f"jobs do not end: {', '.join(active)}")
            time.sleep(POLL_SECONDS)

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


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a request whose values cannot be used."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InvalidError(str(error)) from error
