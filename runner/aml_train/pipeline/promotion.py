"""Open a workspace for promotions: its models, its storage, its registry. And let one end as every run ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.azure import HttpWay
from aml_train.config import TargetConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import Listener, RunFinished
from aml_train.models import Held, Promoter, Promotion, Tracer

if TYPE_CHECKING:
    from aml_train.azure import Assertion, AzureLeases, AzureV2, Fetched
    from aml_train.image import Registry

_STATUS: Final = {"promote": "promoted", "rollback": "rolled-back"}


def open_promoter(
    target: TargetConfig,
    directory: Path,
    *,
    environment: Mapping[str, str],
    listener: Listener,
    assertion: Assertion | None = None,
    fetched: Fetched = lambda _token: None,
) -> Promoter:
    """Return what promotes in the workspace of *target*. The local AzureML is started where it does not run.

    Args:
        target: which workspace.
        directory: the project folder, where config.json may stand.
        environment: the process's environment.
        listener: told everything that happens.
        assertion, fetched: see :class:`aml_train.pipeline.prepare.PreparedRun`.

    Raises:
        InvalidError: the target's workspace is not said, or the password of the registry's user is missing.
        ServiceError: the sign-in fails, or the local AzureML does not start.
    """
    from aml_train.azure import AzureCatalogue

    opened = _azure if target.kind == "azure" else _local
    service, registry = opened(target, directory, environment, listener, assertion, fetched)
    clock = Clock(now=time.monotonic, sleep=time.sleep)
    catalogue = AzureCatalogue(service, clock)
    return Promoter(
        service=service,
        catalogue=catalogue,
        store=DefaultDatastore(service, clock),
        tracer=Tracer(service=service, catalogue=catalogue, registry=registry),
        clock=clock,
        listener=listener,
    )


def _local(
    target: TargetConfig,
    directory: Path,
    environment: Mapping[str, str],
    listener: Listener,
    assertion: Assertion | None,
    fetched: Fetched,
) -> tuple[AzureV2, Callable[[str], Registry | None]]:
    del target, directory, assertion, fetched
    from aml_train.local import EmulatorSettings, connect_local, find_running, local_names, start

    settings = EmulatorSettings.from_environment(environment)
    info = find_running(settings) or start(settings, listener)
    ours = local_names(settings).registry_for_jobs

    def registry(host: str) -> Registry | None:
        from aml_train.image import Registry

        return Registry(f"http://{info.registry_address}", same_machine=True) if host == ours else None

    return connect_local(info, environment, page=settings.page_origin), registry


def _azure(
    target: TargetConfig,
    directory: Path,
    environment: Mapping[str, str],
    listener: Listener,
    assertion: Assertion | None,
    fetched: Fetched,
) -> tuple[AzureV2, Callable[[str], Registry | None]]:
    from aml_train.azure import connect_azure, find_workspace, location_of, password_of, without_secrets

    workspace = find_workspace(target, directory, environment)
    service, sign_in = connect_azure(workspace, outer=environment, assertion=assertion, fetched=fetched)
    password = password_of(target, environment)

    def registry(host: str) -> Registry | None:
        return location_of(
            host,
            target,
            password=password,
            sign_in=sign_in,
            scope=service.cloud.registry_scope,
            outer=without_secrets(environment),
            listener=listener,
            fetched=fetched,
        ).client()

    return service, registry


class DefaultDatastore:
    """The records of a workspace, in its default datastore, which is looked for when it is needed.

    See :class:`aml_train.models.promotion.store.PromotionStore`; every method also raises InvalidError where that datastore is no Blob storage.
    """

    def __init__(self, service: AzureV2, clock: Clock) -> None:
        self._service, self._clock = service, clock
        self._made: AzureLeases | None = None

    def _store(self) -> AzureLeases:
        if self._made is None:
            from aml_train.azure import AzureLeases, workspace_of

            service, way = self._service, HttpWay()
            data = workspace_of(service, service.credential, way, service.workspace.name)
            access = data.access(data.default_datastore())
            self._made = AzureLeases(access, service.credential, clock=self._clock, way=way)
        return self._made

    def read(self, model: str) -> bytes:
        """See :meth:`aml_train.models.promotion.store.PromotionStore.read`."""
        return self._store().read(model)

    def hold(self, model: str) -> AbstractContextManager[Held]:
        """See :meth:`aml_train.models.promotion.store.PromotionStore.hold`."""
        return self._store().hold(model)


def carry_out(work: Callable[[], Promotion], listener: Listener) -> tuple[RunFinished, Promotion | None]:
    """Do it, and tell how it ended, as a run does.

    Returns:
        the last event, with the exit code: 0 also where nothing had to be changed; and what came of it, None after a failure.
    """
    made: Promotion | None = None
    try:
        made = work()
    except AmlTrainError as error:
        end = RunFinished(status=error.status, exit_code=error.exit_code, message=error.message, hint=error.hint)
    except KeyboardInterrupt:
        stopped = CancelledError(
            "Interrupted.", hint="Run it again: what was begun is finished, or nothing was begun."
        )
        end = RunFinished(
            status=stopped.status, exit_code=stopped.exit_code, message=stopped.message, hint=stopped.hint
        )
    else:
        status = _STATUS[made.action] if made.status == "changed" else made.status
        end = RunFinished(status=status, exit_code=0, message=made.message, facts=made.facts())
    listener(end)
    return end, made
