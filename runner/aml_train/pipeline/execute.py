"""Execute a plan, and show it to listeners."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from aml_train.core.clock import Clock, elapsed
from aml_train.core.errors import InvalidError
from aml_train.core.events import Broadcast, Event, Listener, to_json
from aml_train.core.masking import Masker
from aml_train.core.secrets import known_secrets
from aml_train.core.streams import lasting_output
from aml_train.core.sweep import sweep_folders
from aml_train.core.threads import CancelToken
from aml_train.image.leftovers import sweep_leftovers
from aml_train.models.passport.trust import load_trust
from aml_train.pipeline.branch_verdicts import Prover, Recorded
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.passport import SealedProver, make_signer, open_evidence, policy_of
from aml_train.pipeline.prepare import PreparedRun
from aml_train.pipeline.proof import GitProver
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.run import run
from aml_train.pipeline.target import Host, Target, open_target

if TYPE_CHECKING:
    from aml_train.models.passport.envelope import Signer


@contextlib.contextmanager
def json_listener(path: Path | None) -> Iterator[list[Listener]]:
    """Give a listener that writes each event as a line of JSON to *path*, or none.

    Raises:
        InvalidError: if the file cannot be written.
    """
    if path is None:
        yield []
        return
    try:
        file: TextIO = path.open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidError(f"--events {path}: cannot be written: {error.strerror}") from error
    lasting = lasting_output(file, sys.stderr, name=f"--events {path}")

    def write(event: Event) -> None:
        lasting.write(to_json(event) + "\n")
        lasting.flush()

    try:
        yield [write]
    finally:
        lasting.close()


def run_prepared(
    prepared: PreparedRun,
    options: RunOptions,
    *,
    listeners: Sequence[Listener],
    masker: Masker | None = None,
    cancel: CancelToken | None = None,
) -> RunResult:
    """Execute the plan; each of *listeners* receives every event, in their order.

    *masker* knows the secrets that the job's logs must not show: by default those of the environment and the configuration. *cancel*
    interrupts the run at its next event or wait.
    """
    host, config = prepared.host, prepared.plan.config
    if masker is None:
        masker = Masker({*known_secrets(host.environ, identifiers=False), *config.secrets(host.environ)})

    def signer() -> Signer | None:
        return make_signer(config.passport, host.environ, host.assertion)

    emit, clock = Broadcast(*listeners), Clock(now=elapsed, sleep=time.sleep)
    if cancel is not None:
        interruption = _Interruption(cancel)
        emit = Broadcast(*listeners, interruption.check)
        clock = Clock(now=elapsed, sleep=interruption.sleep)

    def opened() -> Target:
        return open_target(host, prepared.plan, emit)

    def make_prover(target: Target) -> Prover:
        plan = prepared.plan
        git = GitProver(config, plan.names, plan.origin, plan.project, target)
        policy = policy_of(config.passport, None, config.directory)
        if policy is not None:
            evidence = open_evidence(target.service, target.registry)
            return SealedProver(evidence=evidence, trust=load_trust(policy), git=git)
        recorded = plan.config.baseline is not None and plan.config.baseline.proof == "recorded"
        return Recorded(origin=plan.origin) if recorded else git

    provers: list[Prover] = []  # one: a run has one target

    def prover(target: Target) -> Prover:
        if not provers:
            provers.append(make_prover(target))
        return provers[0]

    return run(
        RunContext(
            plan=prepared.plan,
            options=options,
            open_target=opened,
            emit=emit,
            clock=clock,
            secrets=masker,
            signer=functools.cache(signer),
            prover=prover,
        )
    )


class _Interruption:
    """Raises KeyboardInterrupt in the run's thread, once, after its token was cancelled."""

    def __init__(self, token: CancelToken) -> None:
        self._token = token
        self._thread = threading.get_ident()
        self._raised = False

    def check(self, _event: object = None) -> None:
        """Raise KeyboardInterrupt if the token was cancelled."""
        if self._token.cancelled and not self._raised and threading.get_ident() == self._thread:
            self._raised = True
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleep; in the run's thread, until the token is cancelled."""
        if self._raised or threading.get_ident() != self._thread:
            time.sleep(seconds)
        else:
            self._token.wait(seconds)
            self.check()


def sweep_engine(host: Host, emit: Listener) -> None:
    """Remove what killed runs left on this machine and its engine.

    Raises:
        ImageError: the engine does not answer.
    """
    sweep_folders(emit)
    sweep_leftovers(host.engine(), emit)
