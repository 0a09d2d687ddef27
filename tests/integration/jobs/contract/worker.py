"""The adapters of Azure in a process that knows nothing but the environment; `tests.integration.jobs.contract.remote` asks it.

Questions and answers are pickled, each behind its length of four bytes; several questions may be on their way at once.
"""

from __future__ import annotations

import logging
import os
import pickle
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any
from urllib.parse import quote

from aml_train.azure.compute import ensure_cluster
from aml_train.azure.models import AzureCatalogue
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError
from aml_train.core.events import Event, Notice
from aml_train.core.threads import CancelToken
from tests.contracts.guarded import change_tags

CLOCK = Clock(now=time.monotonic, sleep=time.sleep)
LOGGER = logging.getLogger(__name__)
_JOBS = {"api-version": "2024-01-01-preview"}


def read_frame(source: IO[bytes]) -> Any:
    """Return the next message; None at the end."""
    head = source.read(4)
    return pickle.loads(source.read(*struct.unpack(">I", head))) if len(head) == 4 else None  # noqa: S301


def write_frame(target: IO[bytes], message: object) -> None:
    """Send a message."""
    body = pickle.dumps(message)
    target.write(struct.pack(">I", len(body)) + body)
    target.flush()


def services(workspace: WorkspaceId) -> dict[str, Any]:
    """Return what can be asked: the workspace's service and models, the service of one that is not there, and of whoever has another secret."""
    nowhere = WorkspaceId(
        subscription_id=workspace.subscription_id, resource_group=workspace.resource_group, name="nowhere"
    )
    wrong = {**os.environ, "AZURE_CLIENT_SECRET": "wrong"}
    service = AzureV2(workspace, sign_in_to_azure(os.environ))
    return {
        "service": service,
        "catalogue": AzureCatalogue(service, CLOCK),
        "elsewhere": AzureV2(nowhere, sign_in_to_azure(os.environ)),
        "signed_out": AzureV2(workspace, sign_in_to_azure(wrong)),
    }


def ingredients(service: AzureV2, name: str) -> tuple[str, str, str | None]:
    """Return the ids of a job's code and of its environment, and the environment's image."""
    found = service.need("GET", service.arm(f"/jobs/{quote(name)}"), f"Looking at {name}", params=_JOBS)
    image = AzureCatalogue(service, CLOCK).environment_image(name)
    return found.optional_text("properties.codeId") or "", found.text("properties.environmentId"), image


def ensure_compute(service: AzureV2, cluster: ClusterConfig) -> list[str]:
    """Have the cluster there; return what was told."""
    received: list[Event] = []
    ensure_cluster(service, cluster, listener=received.append, clock=CLOCK)
    return [event.text for event in received if isinstance(event, Notice)]


def submit(make: Callable[[CancelToken], Any], called_off: bool) -> tuple[Any, bool]:
    """Return the job, and whether its request has left."""
    submission = CancelToken()
    if called_off:
        submission.cancel()
    try:
        view = make(submission)
    except CancelledError:
        assert submission.cancel(), "it was called off, and has left"
        raise
    return view, not submission.cancel()


def answer(known: dict[str, Any], which: str, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Answer one question; what a method yields is read to its end."""
    service = known[which]
    if method == "change_tags":
        return change_tags(known["catalogue"], *args, **options)
    if method == "ingredients":
        return ingredients(service, *args)
    if method == "ensure_compute":
        return ensure_compute(service, *args)
    if method in ("submit", "resubmit"):
        called_off = options.pop("called_off")
        return submit(
            lambda submission: getattr(service, method)(*args, **options, submission=submission), called_off
        )
    value = getattr(service, method)(*args, **options)
    return list(value) if isinstance(value, Iterator) else value


def main() -> None:
    """Answer until nobody asks any more."""
    # What an SDK prints is not an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    writing = threading.Lock()

    def work(number: int, question: tuple[Any, ...]) -> None:
        try:
            value, fault = answer(known, *question), None
        except Exception as error:
            LOGGER.exception("%s", question[:2])
            value, fault = None, error
        with writing:
            write_frame(answers, (number, value, fault))

    with ThreadPoolExecutor(4) as threads:
        known = services(read_frame(sys.stdin.buffer))
        while (message := read_frame(sys.stdin.buffer)) is not None:
            number, *question = message
            threads.submit(work, number, tuple(question))


if __name__ == "__main__":
    main()
