"""A small world that uses every kind of thing that the simulation's kernel replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.kernel import Decisions, Kernel, Network, Plan, Request, Response, installed


def simulate(
    main: Callable[[], Any],
    *,
    serve: Callable[[Request], Response] | None = None,
    plan: Plan | None = None,
    **options: Any,
) -> tuple[list[Any], Kernel]:
    """Run one program, without faults but those of *plan*; return what it returned, and the kernel."""
    results: list[Any] = []
    kernel = Kernel(Decisions(0, plan or {}))
    with installed(kernel):
        network = Network(kernel)
        if serve is not None:
            network.serve("service.test", serve, process=kernel.process("service"))
        kernel.process("program", lambda: results.append(main()), **options)
        kernel.run(linger=1000.0)
    return results, kernel
