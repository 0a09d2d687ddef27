"""The local AzureML as a process that stops, and starts from its database."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams

from aml_emulator.api.admin import prepare_workspace
from aml_emulator.api.app import App
from aml_emulator.api.routing import Call
from aml_emulator.context import Context
from aml_emulator.domain.jobs.service import JobService, RunProgress
from aml_emulator.executor.nodes import Fleet
from aml_emulator.identity.federation import Federation
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.network.fault_injection import Faults
from aml_emulator.network.requests_log import RequestLog
from aml_emulator.store.blobs import Blobs
from aml_emulator.store.store import Store
from simulation.world.cluster import Cluster, ScriptExecutor
from simulation.world.http import Request, Response, UnreachableError

STORAGE_HOST = "storage.internal"
"""The host at which the service reaches the storage account."""

_MAX_JOBS = 64


class AzureMlService:
    """One life after another of the service's process.

    Args:
        identity: names and secrets.
        folder: the state that outlives the process.
        cluster: executes the jobs.
    """

    def __init__(self, identity: Identity, folder: Path, cluster: Cluster) -> None:
        self._identity, self._folder, self._cluster = identity, folder, cluster
        self._app: App | None = None
        self._context: Context | None = None
        self._jobs: JobService | None = None
        self._runner: ScriptExecutor | None = None

    @property
    def context(self) -> Context:
        """The state of the present process."""
        if self._context is None:
            raise UnreachableError("the service does not run")
        return self._context

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._context is not None

    def start(self) -> None:
        """Start the process: open the database, and resume the jobs."""
        now = self._cluster.now
        identity, folder = self._identity, self._folder
        store = Store(folder / "store.db", clock=now)
        blobs = Blobs(
            account=identity.storage_account,
            key=identity.storage_key,
            endpoint=f"https://{STORAGE_HOST}/{identity.storage_account}",
            public_endpoint=f"https://{identity.blob_host}",
            ca_file="",
            clock=now,
        )
        context = Context(
            identity=identity,
            store=store,
            blobs=blobs,
            tokens=Tokens(identity, clock=now),
            clock=now,
            federation=Federation(folder / "federation.json"),
            faults=Faults(clock=now),
            requests=RequestLog(clock=now),
            fleet=Fleet(clock=now, seed=identity.instance),
        )
        prepare_workspace(context, max_jobs=_MAX_JOBS)
        self._runner = ScriptExecutor(self._cluster, context, partial(RunProgress, context))
        self._jobs = JobService(context, self._runner)
        self._app = App(context, self._jobs)
        self._context = context
        self._jobs.resume()

    def stop(self) -> None:
        """End the process; its memory is lost, and an open transaction is undone."""
        context, jobs, runner = self._context, self._jobs, self._runner
        self._app = self._context = self._jobs = self._runner = None
        if runner is not None:
            runner.close()
        if jobs is not None:
            jobs.close()
        if context is not None:
            context.blobs.close()
            context.store.close()

    def handle(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            UnreachableError: the process does not run.
        """
        app = self._app
        if app is None:
            raise UnreachableError(f"{request.host} refuses connections")
        parts = urlsplit(request.url)
        raw = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in request.headers.items()]
        headers = Headers(raw=[*(one for one in raw if one[0] != b"host"), (b"host", parts.netloc.encode())])
        answered = app.answer(
            Call(
                method=request.method,
                host=(parts.hostname or "").lower(),
                path=request.raw_path,
                params={},
                query=QueryParams(parts.query),
                headers=headers,
                body=request.body,
                principal=None,
            )
        )
        return Response(status=answered.status_code, headers=answered.headers, body=bytes(answered.body))
