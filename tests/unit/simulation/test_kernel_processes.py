from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time

import requests

from aml_train.core.temporary import _this_process
from aml_train.core.threads import _cleanups, cleanup_on_interrupt
from simulation.kernel import Decisions, Kernel, Request, Response, installed
from tests.support.simulated_world import simulate


def _killed_at(point: int) -> tuple[list[str], Kernel]:
    """Kill a program that sends a request, at one of its switch points."""
    log: list[str] = []

    def serve(request: Request) -> Response:
        log.append(f"arrived {request.method}")
        return Response()

    def main() -> None:
        atexit.register(log.append, "atexit")
        try:
            log.append("begin")
            time.sleep(1)
            log.append("send")
            requests.put("https://service.test/", timeout=5)
            log.append("sent")
            time.sleep(1)
        except BaseException:
            log.append("except")
            raise
        finally:
            log.append("finally")

    _results, kernel = simulate(main, serve=serve, plan={f"kill:program:{point}": True})
    return log, kernel


def test_a_kill_runs_no_code_of_the_process_and_what_it_sent_arrives() -> None:
    logs = {}
    for point in range(1, 10):
        log, kernel = _killed_at(point)
        logs[point] = log[: log.index("except")] if "except" in log else log
        if kernel.processes[-1].exit_code != -9:
            assert log == ["begin", "send", "arrived PUT", "sent", "finally", "atexit"]
            break
        # What comes after the last check is the end of the simulation, not of the process.
        assert "atexit" not in log
    assert list(logs.values()) == [
        ["begin"],  # while it sleeps
        ["begin", "send"],  # before the request is sent
        ["begin", "send", "arrived PUT"],  # while it waits for the answer
        ["begin", "send", "arrived PUT", "sent"],
        ["begin", "send", "arrived PUT", "sent", "finally", "atexit"],
    ]


def test_global_variables_are_those_of_the_process() -> None:
    seen: dict[str, object] = {}

    def main(name: str) -> None:
        os.environ["NAME"] = name
        sys.argv.append(name)
        cleanup_on_interrupt(lambda: time.sleep(10))
        time.sleep(5)
        owner = _this_process()
        seen[name] = (os.environ["NAME"], sys.argv[-1], len(_modules_cleanups()), owner.pid == os.getpid())
        time.sleep(10)

    kernel = Kernel(Decisions(0, {}))
    arguments, cleanups = list(sys.argv), list(_cleanups)  # of this process: earlier tests may have left some
    with installed(kernel):
        for name in ("one", "two"):
            kernel.process(name, functools.partial(main, name))
        kernel.run()
    assert seen == {name: (name, name, 1, True) for name in ("one", "two")}
    assert "NAME" not in os.environ
    assert sys.argv == arguments
    assert _cleanups == cleanups


def _modules_cleanups() -> list[threading.Thread]:
    from aml_train.core import threads

    return threads._cleanups
