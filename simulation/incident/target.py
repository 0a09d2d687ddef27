"""The target of a replay: recorded answers of a workspace, recorded images."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn
from unittest import mock

import aml_train.azure.target as azure_target
import aml_train.jobs.attempts as job_attempts
import aml_train.jobs.spec as job_spec
from aml_train.azure import AzureV2, SignIn, WorkspaceId, open_azure
from aml_train.config import BuilderConfig, ClusterConfig
from aml_train.core import errors as product_errors
from aml_train.core import events as product_events
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ImageError, ServiceError
from aml_train.core.events import Event, Listener
from aml_train.core.files import FileSet
from aml_train.image import BuildPlace, ImageSpec, JobImage, Registry, RegistryLocation, Tested, TestSpec
from aml_train.jobs import JobTemplate, Pace, Workspace
from aml_train.local import LOCAL_PACE
from aml_train.pipeline import Plan, Target
from aml_train.pipeline.record.values import decode
from simulation.incident.bundle import Bundle, ReplayError

_WORKSPACE = re.compile(
    r"/subscriptions/([^/?]+)/resourceGroups/([^/?]+)/providers/Microsoft\.MachineLearningServices/workspaces/([^/?]+)"
)


class _Token(NamedTuple):
    token: str
    expires_on: int


class _Credential:
    """A credential whose tokens no service checks."""

    def get_token(self, *_scopes: str, **_options: Any) -> _Token:
        return _Token("replayed", int(time.time()) + 3600)


def sign_in() -> SignIn:
    """Return a sign-in without requests."""
    credential: Any = _Credential()
    return SignIn(credential, way="secret", again=lambda: credential)


class RecordedImages:
    """The target's own work, in the order of the recording.

    Args:
        bundle: has the calls and the events of the run.
        emit: receives the events that a call emitted.
        interrupt: interrupts this thread.
    """

    def __init__(self, bundle: Bundle, emit: Listener, interrupt: Callable[[], NoReturn]) -> None:
        self._left = [one for one in bundle.calls if one["part"] in ("image", "find-image")]
        self._events = bundle.events
        self._emit = emit
        self._interrupt = interrupt

    def next(self, part: str) -> Any:
        """Return what the next call of *part* returned; raise what it raised."""
        call = next((one for one in self._left if one["part"] == part), None)
        if call is None:
            raise ReplayError(f"The product called the target's part {part} more often than in the recording.")
        self._left.remove(call)
        for one in self._events[call["first_event"] : call["after_event"]]:
            if (event := event_of(one)) is not None:
                self._emit(event)
        error = call.get("error")
        if error and error.get("interrupted"):
            self._interrupt()
        if error and "defect" in error:
            raise ReplayError(f"A defect ended the target's part {part}, {error['defect']}: it is not replayed.")
        if error:
            raise error_of(error)
        return decode(call["result"])


def error_of(recorded: Mapping[str, Any]) -> AmlTrainError:
    """Return an expected error as it was recorded."""
    made = getattr(product_errors, str(recorded["type"]), None)
    cls = made if isinstance(made, type) and issubclass(made, AmlTrainError) else None
    message, hint = str(recorded["message"]), recorded.get("hint")
    if cls is not None and issubclass(cls, ServiceError):
        return cls(
            message, hint=hint, transient=bool(recorded.get("transient")), retry_after=recorded.get("retry_after")
        )
    if cls is not None:
        return cls(message, hint=hint)
    return product_errors.error_of(str(recorded["status"]), message, hint)


def event_of(recorded: Mapping[str, Any]) -> Event | None:
    """Return an event of its plain fields; None for those that are kept as counts."""
    classes = {cls.__name__: cls for cls in vars(product_events).values() if isinstance(cls, type)}
    name = "".join(part.capitalize() for part in str(recorded["event"]).split("-"))
    cls = classes.get(name)
    if cls is None or not issubclass(cls, Event) or name in ("LogLine", "LogLines", "LogsEnded", "RunFinished"):
        return None
    given: dict[str, Any] = {}
    for one in dataclasses.fields(cls):
        if one.name in recorded and one.name != "at":
            value = recorded[one.name]
            given[one.name] = () if isinstance(value, list) else value
    return cls(**given)


@dataclasses.dataclass(kw_only=True)
class ReplayTarget:
    """A target as the recorded run had it; see :class:`aml_train.pipeline.Target`."""

    service: Workspace
    pace: Pace
    images: RecordedImages
    opened: Any

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """Return the image of the recording, or raise its error."""
        found: Tested = self.images.next("image")
        return found

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """Find or make the cluster, by recorded answers."""
        from aml_train.azure.compute import ensure_cluster

        ensure_cluster(self.opened, cluster, listener=lambda _event: None, clock=clock)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """Return the image that the recorded run found."""
        found: Tested | None = self.images.next("find-image")
        return found

    def image_registry(self) -> RegistryLocation:
        """See :class:`aml_train.pipeline.Target`.

        Raises:
            ReplayError: a bundle has no registry.
        """
        raise ReplayError("The run used the registry itself, as passports do: that is not in a bundle.")

    def registry(self, host: str) -> Registry | None:
        """See :class:`aml_train.pipeline.Target`."""
        return None


@dataclasses.dataclass
class ReplayStandIn:
    """Opens the target; see :class:`aml_train.pipeline.StandIn`."""

    bundle: Bundle
    emit: Listener
    interrupt: Callable[[], NoReturn]

    @property
    def service(self) -> Workspace:
        """See :class:`aml_train.pipeline.StandIn`."""
        return self.target().service

    def target(self) -> Target:
        """Open the target of the recorded run.

        Raises:
            AmlTrainError: the recorded run could not open it.
        """
        config, place = self.bundle.config, workspace_of(self.bundle)
        recorded = next((one for one in self.bundle.calls if one["part"] == "open"), {})
        service: AzureV2
        if config.target.kind == "azure" and place is not None:
            target = open_azure(
                config.target,
                place,
                self.bundle.plan.job.document.get("compute"),
                place=BuildPlace(config=BuilderConfig(), local=_no_engine, environ={}),
                outer={},
                assertion=None,
                listener=self.emit,
            )
            service, pace = target.service, target.pace
        else:
            place = place or WorkspaceId(subscription_id="x0", resource_group="x0", name="x0")
            service, pace = AzureV2(place, sign_in()), LOCAL_PACE
        if recorded.get("error", {}).get("interrupted"):
            self.interrupt()
        if recorded.get("error", {}).get("type"):
            # The sign-in, or the start of the local AzureML: what is in no answer of the workspace.
            raise error_of(recorded["error"])
        return ReplayTarget(
            service=service, pace=pace, images=RecordedImages(self.bundle, self.emit, self.interrupt), opened=service
        )

    def backend(self) -> Any:
        """No command of a replay browses."""
        raise ReplayError("A replay has no workspace to browse.")

    def promoter(self, emit: Listener) -> Any:
        """No command of a replay promotes."""
        raise ReplayError("A replay promotes nothing.")


def _no_engine() -> Any:
    raise ImageError("A replay has no Docker engine.")


def workspace_of(bundle: Bundle) -> WorkspaceId | None:
    """Return the workspace that the recorded run used; None if it reached none."""
    for one in bundle.exchange:
        if (found := _WORKSPACE.search(str(one["address"]))) is not None:
            return WorkspaceId(subscription_id=found[1], resource_group=found[2], name=found[3])
    return None


@contextlib.contextmanager
def sign_in_without_requests() -> Iterator[None]:
    """Sign in to the workspace without a request, during the block."""
    with mock.patch.object(azure_target, "sign_in_to_azure", side_effect=lambda *_args, **_options: sign_in()):
        yield


@contextlib.contextmanager
def recorded_fingerprints(bundle: Bundle) -> Iterator[None]:
    """Name jobs as the recorded run did, during the block.

    A fingerprint covers the files and values that are not in a bundle: the first distinct job gets the first recorded name, and so
    on. For the same reason a job of such a name counts as the one that it was.
    """
    stem = re.escape(str(bundle.plan.job.stem))
    names = re.compile(rf"/{stem}-([0-9a-f]{{12}})-\d+(?![0-9a-z])")
    texts = [str(one["address"]) for one in bundle.exchange]
    heads = list(dict.fromkeys(match[1] for text in texts for match in names.finditer(text)))
    known: dict[str, str] = {}
    original = job_spec.fingerprint

    def fingerprint(template: JobTemplate, image: JobImage) -> str:
        mine = original(template, image)
        if mine not in known:
            known[mine] = heads.pop(0).ljust(64, "0") if heads else mine
        return known[mine]

    with (
        mock.patch.object(job_spec, "fingerprint", fingerprint),
        mock.patch.object(job_attempts, "identity_difference", return_value=()),
    ):
        yield


def with_files(plan: Plan, folder: Path) -> Plan:
    """Return *plan* with files in *folder*, of the recorded names and sizes.

    Raises:
        ReplayError: a name in the bundle leads out of the folder.
    """
    made: dict[int, FileSet] = {}

    def make(files: FileSet | None) -> FileSet | None:
        if files is None:
            return None
        if id(files) not in made:
            made[id(files)] = written(files, folder / f"code-{len(made)}" / _plain(files.root.name))
        return made[id(files)]

    job = plan.job
    folders = {place: found for place, files in job.folders.items() if (found := make(files)) is not None}
    return dataclasses.replace(
        plan, job=dataclasses.replace(job, directory=folder, code=make(job.code), folders=folders)
    )


def written(files: FileSet, root: Path) -> FileSet:
    """Write files of these names and sizes below *root*, which is made; return them.

    Raises:
        ReplayError: a name leads out of the folder.
    """
    root.mkdir(parents=True)
    entries = tuple(dataclasses.replace(entry, link=None) for entry in files.entries)
    for entry in entries:
        parts = PurePosixPath(entry.path).parts
        if not parts or ".." in parts or entry.path.startswith("/"):
            raise ReplayError(f"The bundle names a file outside of its folder: {entry.path}")
        target = root.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.truncate(entry.size)
    return FileSet(root=root, entries=entries)


def _plain(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) else "code"
