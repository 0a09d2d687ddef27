"""The recorder of a run: a listener that also sees requests, target and ending."""

from __future__ import annotations

import contextlib
import json
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.clock import Clock, elapsed
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import Event, LogLine, LogLines, LogsEnded, Progress, RunFinished, to_json
from aml_train.core.values import dataclass
from aml_train.pipeline.record.exchange import Tap
from aml_train.pipeline.record.values import encode

if TYPE_CHECKING:
    from aml_train.config import ClusterConfig, Config
    from aml_train.image import ImageSpec, Registry, RegistryLocation, Tested, TestSpec
    from aml_train.jobs import Pace, Workspace
    from aml_train.pipeline.prepare import PreparedRun
    from aml_train.pipeline.result import RunOptions
    from aml_train.pipeline.target import Target

#: Bytes of the first line of a message that are kept, before it is scrubbed.
_MOST_MESSAGE: Final = 2000
#: The file of a frame that is in no installed package.
ELSEWHERE: Final = "elsewhere"


@dataclass(kw_only=True)
class Recorded:
    """Everything that was seen of a run, not scrubbed yet.

    Attributes:
        command: the command's words and options, without values.
        events: each event as JSON, with the seconds of the recording's clock under ``seconds``.
        calls: what the target did: its part, how it ended, and which events it emitted.
        interruptions: the seconds of each interruption.
        failure: the exception that no one expected, with its traceback.
        error: the expected error that ended the command before the pipeline ran.
    """

    command: str
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    config: Config | None = None
    prepared: PreparedRun | None = None
    options: RunOptions | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    interruptions: list[float] = field(default_factory=list)
    failure: BaseException | None = None
    error: AmlTrainError | None = None


class Recorder:
    """Records one run; see :func:`aml_train.pipeline.record.recording.record_run`."""

    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        self.seen = Recorded(command=command, environ=environ)
        self._began = elapsed()
        self._parts: list[str] = []
        self.tap = Tap(self.now, during=self._during)

    def now(self) -> float:
        """Return the seconds since the recording began."""
        return elapsed() - self._began

    def _during(self) -> str:
        return self._parts[-1] if self._parts else ""

    def interrupted(self, again: bool) -> None:
        """Note the moment of an interruption.

        Args:
            again: whether the one before was lost, which this one replaces.
        """
        if again and self.seen.interruptions:
            self.seen.interruptions.pop()
        self.seen.interruptions.append(self.now())

    def __call__(self, event: Event) -> None:
        """Note an event; of a log, only how much it was."""
        found = _noted(event)
        if found is not None:
            self.seen.events.append({**found, "seconds": self.now()})

    def loaded(self, config: Config) -> None:
        """Note the configuration."""
        self.seen.config = config

    def prepared(self, prepared: PreparedRun, options: RunOptions) -> None:
        """Note the plan and the options."""
        self.seen.prepared, self.seen.options = prepared, options
        self.seen.config = prepared.config

    def target(self, open_target: Callable[[], Target]) -> Callable[[], Target]:
        """Return a function that opens the same target, whose work is noted."""

        def opened() -> Target:
            with self._call("open"):
                target = open_target()
            return _RecordedTarget(target, self._call)

        return opened

    @contextlib.contextmanager
    def _call(self, part: str) -> Iterator[list[Any]]:
        """Note how a call of the target ends; the block appends its result."""
        call: dict[str, Any] = {"part": part, "began": self.now(), "first_event": len(self.seen.events)}
        self.seen.calls.append(call)
        self._parts.append(part)
        result: list[Any] = []
        try:
            yield result
            call["result"] = encode(result[0]) if result else None
        except AmlTrainError as error:
            call["error"] = _error(error)
            raise
        except KeyboardInterrupt:
            call["error"] = {"interrupted": True}
            raise
        except BaseException as error:
            call["error"] = {"defect": type(error).__name__}
            raise
        finally:
            self._parts.remove(part)
            call |= {"ended": self.now(), "after_event": len(self.seen.events)}


class _RecordedTarget:
    """A target whose calls are noted; see :class:`aml_train.pipeline.target.Target`."""

    def __init__(self, target: Target, call: Callable[[str], contextlib.AbstractContextManager[list[Any]]]) -> None:
        self._target = target
        self._call = call

    @property
    def service(self) -> Workspace:
        return self._target.service

    @property
    def pace(self) -> Pace:
        return self._target.pace

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        with self._call("image") as result:
            result.append(self._target.ensure_image(spec, tests, force=force, commit=commit))
        return result[0]  # type: ignore[no-any-return]

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        self._target.ensure_compute(cluster, clock)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        with self._call("find-image") as result:
            result.append(self._target.find_image(spec))
        return result[0]  # type: ignore[no-any-return]

    def image_registry(self) -> RegistryLocation:
        return self._target.image_registry()

    def registry(self, host: str) -> Registry | None:
        return self._target.registry(host)


def _error(error: AmlTrainError) -> dict[str, Any]:
    """Return an expected error as JSON: its class, and the first line of its text."""
    found: dict[str, Any] = {
        "type": type(error).__name__,
        "status": error.status,
        "exit_code": error.exit_code,
        "message": first_line(error.message),
        "hint": first_line(error.hint or "") or None,
    }
    if isinstance(error, ServiceError):
        found |= {"transient": error.transient, "retry_after": error.retry_after}
    return found


def first_line(text: str) -> str:
    """Return the beginning of a message: further lines may quote foreign output."""
    return (text.splitlines() or [""])[0][:_MOST_MESSAGE]


def _noted(event: Event) -> dict[str, Any] | None:
    """Return what is kept of an event; None for progress, of which nothing is."""
    at = {"event": event.name, "at": event.at.isoformat()}
    match event:
        case Progress():
            return None
        case LogLine():
            return {**at, "source": event.source, "lines": 1, "characters": len(event.text)}
        case LogLines():
            known = {"source": event.source, "origin": event.origin, "rank": event.rank}
            return {**at, **known, "lines": event.text.count("\n") + 1, "characters": len(event.text)}
        case LogsEnded():
            tails = [
                {"origin": one.origin, "rank": one.rank, "lines": len(one.lines), "size": one.size}
                for one in event.tails
            ]
            return {**at, "job": event.job, "tails": tails, "tracebacks": len(event.tracebacks)}
        case RunFinished():
            ending = {"status": event.status, "exit_code": event.exit_code, "hint": first_line(event.hint or "")}
            return {**at, **ending, "message": first_line(event.message)}
    found: dict[str, Any] = json.loads(to_json(event))
    for failure in found.get("failures") or ():
        failure["output"] = ""
    return found


def traceback_of(error: BaseException) -> dict[str, Any]:
    """Return a traceback as JSON: files of packages, functions, lines; no values."""
    roots = sorted({*sysconfig.get_paths().values(), str(Path(__file__).parents[3])}, key=len, reverse=True)
    chain: list[dict[str, Any]] = []
    here: BaseException | None = error
    while here is not None and len(chain) < 8:
        frames = [
            _frame(frame.filename, frame.name, frame.lineno or 0, roots)
            for frame in traceback.extract_tb(here.__traceback__)[-100:]
        ]
        chain.append({"type": type(here).__name__, "message": first_line(str(here)), "frames": frames})
        here = here.__cause__ or (None if here.__suppress_context__ else here.__context__)
    return {"chain": chain}


def _frame(file: str, function: str, line: int, roots: Sequence[str]) -> dict[str, Any]:
    """Return a frame; of code that is no installed package only the line."""
    known = next((file[len(root) + 1 :] for root in roots if file.startswith(f"{root}/")), None)
    if known is None:
        return {"file": ELSEWHERE, "function": ELSEWHERE, "line": line}
    return {"file": known, "function": function, "line": line}
