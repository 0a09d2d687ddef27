"""The main thread of a program, from its beginning to its end."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from simulation.kernel.entities import Process
from simulation.kernel.errors import Buried, Violation

if TYPE_CHECKING:
    from simulation.kernel.scheduler import Kernel


def run_program(kernel: Kernel, process: Process, main: Callable[[], object]) -> None:
    """Run a program as the interpreter does."""
    threading._main_thread = threading._MainThread()  # type: ignore[attr-defined]
    code = 0
    try:
        main()
    except (Buried, Violation):
        raise
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # noqa: BLE001 - whatever ends a program is kept
        code, process.error = 1, error
        text = "".join(traceback.format_exception(error))
        kernel.fail(Violation("no-crash", f"{process.label} ended with\n{text}"))
    if not process.service:
        threading._shutdown()  # type: ignore[attr-defined]
        run_at_exit(process)
        kernel.end(process, code)


def run_at_exit(process: Process) -> None:
    """Call the functions that a process has registered with ``atexit``."""
    while process.at_exit:
        process.at_exit.pop()()


def stacks(processes: Iterable[Process]) -> str:
    """Return the stack of each thread, for messages."""
    texts = []
    for process in processes:
        for task in process.tasks if process.alive else ():
            frame = task.greenlet.gr_frame
            lines = [] if frame is None else traceback.format_stack(frame)[-12:]
            texts.append(f"{task.name} waits for {task.waiting or 'its turn'}\n{''.join(lines)}")
    return "\n".join(texts)
