"""Replay a recorded run, and compare ending and stages with the recording."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from aml_train.config import PassportConfig
from aml_train.core.events import Event, to_json
from aml_train.pipeline import Host, PreparedRun, run_prepared, standing_in
from aml_train.pipeline.record.recorder import first_line, traceback_of
from simulation.incident.bundle import BEYOND, Bundle, Ending, ReplayError
from simulation.incident.interruptions import Interruptions
from simulation.incident.target import (
    ReplayStandIn,
    recorded_fingerprints,
    sign_in_without_requests,
    with_files,
)
from simulation.incident.transport import Answers, UnknownRequestError
from simulation.incident.virtual_time import VirtualTime

#: The events that are compared, each with the fields that decide.
COMPARED: Final[Mapping[str, tuple[str, ...]]] = {
    "stage-started": ("stage",),
    "stage-finished": ("stage", "skipped"),
    "image-ready": ("how",),
    "tests-finished": ("passed", "failed", "cached"),
    "job-submitted": ("attached", "attempt"),
    "job-status-changed": ("status",),
    "attempt-ended": ("attempt", "status", "ending"),
    "rule-decided": ("metric", "verdict"),
    "model-registered": ("found",),
    "run-finished": ("status", "exit_code"),
}


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of a replay.

    Attributes:
        recorded, replayed: how the runs ended.
        difference: the first event that differs, as text; empty if none does.
        unknown: requests that are not in the bundle.
        answered: how many recorded requests were sent again.
        seconds: virtual seconds of the run.
        place: where a defect was raised, ``file:line``.
    """

    recorded: Ending
    replayed: Ending
    difference: str
    unknown: tuple[str, ...] = ()
    answered: int = 0
    seconds: float = 0.0
    place: str = ""

    @property
    def reproduced(self) -> bool:
        """Whether the ending and the sequence of stages are the recorded ones."""
        return self.recorded.same(self.replayed) and not self.difference and not self.unknown

    def __str__(self) -> str:
        lines = ["reproduced" if self.reproduced else "not reproduced"]
        lines.append(f"recorded  {self.recorded}")
        lines.append(f"replayed  {self.replayed}{f' at {self.place}' if self.place else ''}")
        if self.replayed.message:
            lines.append(f"message   {self.replayed.message}")
        lines += [f"unknown   {one}" for one in self.unknown]
        if self.difference:
            lines.append(f"differs   {self.difference}")
        lines.append(f"requests  {self.answered} answered, {self.seconds:.1f} s of virtual time")
        return "\n".join(lines)


def replay(bundle: Bundle) -> Replay:
    """Run the pipeline with the bundle's plan against its answers.

    The process's time, its requests, its sign-in and its handler of SIGINT are replaced meanwhile: this is the main thread, and nothing
    else may run in the process.

    Raises:
        ReplayError: the run did something that a bundle does not hold.
    """
    found = _replay(bundle)
    if found.reproduced or not bundle.interruptions:
        return found
    early = _replay(bundle, early=True)
    return early if early.reproduced else found


def _replay(bundle: Bundle, *, early: bool = False) -> Replay:
    """Replay once, with *early* interruptions or late ones; see :func:`replay`."""
    clock, events, place = VirtualTime(_began(bundle)), list[dict[str, Any]](), ""
    moments = [float(one["seconds"]) for one in bundle.events if one["event"] in COMPARED]
    interruptions = Interruptions(bundle.interruptions, bundle.exchange, moments, clock, early=early)
    answers = Answers(bundle.exchange, clock, interruptions)
    with (
        tempfile.TemporaryDirectory(prefix="aml-train-replay-") as folder,
        _replaced(bundle, clock, answers),
        interruptions.in_place(),
    ):
        prepared = PreparedRun(
            plan=dataclasses.replace(with_files(bundle.plan, Path(folder)), passport=PassportConfig()),
            config=dataclasses.replace(bundle.config, notify=()),
            host=Host(environ={}),
        )

        def listen(event: Event) -> None:
            compared = event.name in COMPARED
            # The end of a run is not interrupted: the result is there already.
            counted = compared and event.name != "run-finished"
            if counted:
                interruptions.before_event()
            events.append(json.loads(to_json(event)) if compared else {"event": event.name})
            if counted:
                interruptions.after_event()

        try:
            with standing_in(ReplayStandIn(bundle, listen, interruptions.interrupt)):
                result = run_prepared(prepared, bundle.options, listeners=[listen])
            ended = Ending(status=result.status, exit_code=result.exit_code, message=first_line(result.message))
        except UnknownRequestError:
            ended = Ending(status=BEYOND, exit_code=None)
        except ReplayError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect of the product is what a replay looks for
            trace = traceback_of(error)["chain"][0]
            ended = Ending(status=None, exit_code=None, defect=trace["type"], message=trace["message"])
            place = f"{trace['frames'][-1]['file']}:{trace['frames'][-1]['line']}" if trace["frames"] else ""
    return Replay(
        recorded=bundle.ending,
        replayed=ended,
        difference=first_difference(bundle.events, events),
        unknown=tuple(dict.fromkeys(answers.unknown)),
        answered=answers.answered,
        seconds=clock.now(),
        place=place,
    )


@contextlib.contextmanager
def _replaced(bundle: Bundle, clock: VirtualTime, answers: Answers) -> Iterator[None]:
    """Replace time, transport, sign-in and names of jobs; restore the streams."""
    plain = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
    with (
        mock.patch.dict(os.environ, plain, clear=True),
        # The SDK's output is put aside, and a submission that is interrupted does not come to its end.
        contextlib.redirect_stdout(sys.stdout),
        contextlib.redirect_stderr(sys.stderr),
        answers.in_place(),
        sign_in_without_requests(),
        recorded_fingerprints(bundle),
        clock.in_place(),
    ):
        yield


def _began(bundle: Bundle) -> float:
    """Return when the recording began, in seconds since the epoch."""
    for one in bundle.events:
        if "at" in one and "seconds" in one:
            return datetime.datetime.fromisoformat(str(one["at"])).timestamp() - float(one["seconds"])
    return 0.0


def first_difference(recorded: Iterable[Mapping[str, Any]], replayed: Iterable[Mapping[str, Any]]) -> str:
    """Return the first event that differs, as text; empty for none."""
    left, right = list(_decisive(recorded)), list(_decisive(replayed))
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else "the end of the run"
        other = right[number] if number < len(right) else "the end of the run"
        if one != other:
            return f"event {number + 1}: recorded {one}, replayed {other}"
    return ""


def _decisive(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in events:
        name = str(one["event"])
        if name in COMPARED:
            yield " ".join([name, *(f"{field}={one.get(field)}" for field in COMPARED[name])])
