"""Sends azureml-core's unsent metrics when a Python of a job ends.

It is copied into the job as ``aml_run_flush.py``.

azureml-core collects what ``Run.log`` is given and sends it once in a while from a daemon thread, and it has no exit hook. AzureML's own
wrapper sent the rest: ``azureml.history._tracking.get_history_context_manager`` puts ``SendRunKillSignal`` around the user's script, whose
``__exit__`` calls ``_RunBase._kill`` (azureml-core 1.61, ``azureml/_history/utils/context_managers.py``). This does the same, at the end of
every Python of the job that has made a ``Run``: at the end of the script, after an exception, after ``sys.exit``.

It runs in the user's interpreter, of any version from 3.6 on, with or without azureml-core: it imports nothing but the standard library.
"""

import os
import sys
import threading
import traceback

#: The process that was started as a Python. A fork has a copy of what its parent has not sent yet, and must not send it, too.
_PID = os.getpid()
_shutdown = threading._shutdown  # type: ignore[attr-defined]


def _other_threads() -> "list[threading.Thread]":
    """Return the threads that Python waits for at its end, without executors' workers."""
    executors = sys.modules.get("concurrent.futures.thread")
    workers = set(getattr(executors, "_threads_queues", ()))
    mine = (threading.current_thread(), threading.main_thread())
    return [one for one in threading.enumerate() if not one.daemon and one not in mine and one not in workers]


def _flush() -> None:
    """Send the unsent metrics of every ``Run`` of this process, as AzureML does."""
    base = sys.modules.get("azureml._run_impl.run_base")
    runs = getattr(base, "_RunBase", None)
    if runs is None or os.environ.get("AZUREML_DISABLE_RUN_KILL_SIGNAL"):
        return
    for thread in _other_threads():
        thread.join()
    if runs._registered_kill_handlers.empty():
        return
    # The texts of `_kill` are for people: a program may be reading this process's output.
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        runs._kill(timeout=float(os.environ.get("AZUREML_RUN_KILL_SIGNAL_TIMEOUT_SEC", "300")))
    finally:
        sys.stdout = output


def _flush_and_shut_down() -> None:
    """Replace ``threading._shutdown``, which the interpreter calls first at its end.

    Forks call it at theirs.

    An ``atexit`` function would be too late: the executors that azureml-core sends by take no work any more by then.
    """
    try:
        if os.getpid() == _PID:
            _flush()
    except Exception:
        sys.stderr.write("The metrics that azureml-core still held could not be sent; the run may lack them:\n")
        traceback.print_exc()
    finally:
        _shutdown()


threading._shutdown = _flush_and_shut_down  # type: ignore[attr-defined]
