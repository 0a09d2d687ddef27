"""The notebook of the examples, executed with a workspace in memory."""

from __future__ import annotations

import pytest

from tests.support.notebook import NOTEBOOK, execute

#: Comes before the first cell: every target is a workspace in memory, whose jobs log what digits logs.
IN_MEMORY = """
from aml_train.testing import memory_workspace

def training(job):
    for epoch in range(3):
        job.log_metric("val/accuracy", 0.90 + epoch / 30, epoch)
        job.log_metric("val/loss", 0.3 - epoch / 10, epoch)
        job.say(f"epoch {epoch}")
        yield
    job.write("outputs/model/weights.txt", b"weights")

memory = memory_workspace(training)
service = memory.__enter__()
"""


#: A run that does not end by itself, whose cell is interrupted as by the button: by a signal to the kernel.
INTERRUPTED = """
import os, signal, threading
from aml_train import load_config, run

def training(job):
    while True:
        job.say("training")
        yield

service.training = training
before = signal.getsignal(signal.SIGINT)

def press():
    while not any(view.status.value == "Running" for view in list(service.jobs.values())):
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press).start()
try:
    run(load_config(directory="../digits"))
except KeyboardInterrupt:
    print("interrupted", [view.status.value for view in service.jobs.values()])
print("handler kept", signal.getsignal(signal.SIGINT) is before)
raise SystemExit("the notebook's own cells are not needed")
"""


@pytest.mark.full
def test_the_stop_button_cancels_the_job() -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError) as caught:
        execute(NOTEBOOK.parent, IN_MEMORY, INTERRUPTED)
    printed = str(caught.value)
    assert "interrupted ['Canceled']" in printed
    assert "handler kept True" in printed
