"""Promotions into another workspace, as a process of its own. Usage: ``crossing_worker.py STEP ARGUMENTS``; each step prints JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import urllib3

from aml_train.config.load import load_promotion
from aml_train.core.errors import GateFailedError
from aml_train.models.promotion.change import PromotionRequest
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.passport import policy_of
from aml_train.pipeline.promotion import open_promoter
from aml_train.pipeline.target import Host
from tests.integration.models import passport_worker

#: Interruptions at most: each run goes one write further.
MOST = 60


def prepare(*, port: int, folder: str, versions: int) -> object:
    """Train and sign so many versions, each better than the one before, in an image of its own."""
    return [
        passport_worker.prepare(port=port, folder=folder, mark=f"v{number}", accuracy=0.8 + number / 1000)
        for number in range(1, versions + 1)
    ]


def opened() -> tuple[Promoter, Any]:
    found = load_promotion(None, directory=Path(), target=None)
    policy = found.promote.of("production")
    promoter = open_promoter(
        Host(environ=dict(os.environ)),
        found.target,
        found.directory,
        lambda _event: None,
        project=found.project,
        policy=policy_of(found.passport, None, found.directory),
        to=policy.to,
    )
    return promoter, policy


@contextlib.contextmanager
def interrupted(after: int, sent: list[str]) -> Iterator[None]:
    """Interrupt this process once, when its main thread's write of that number, from 1, has been answered; 0 for never.

    Python delivers an interruption to the main thread only: none begins in a thread that copies a file.
    """
    original = urllib3.HTTPConnectionPool.urlopen

    def urlopen(pool: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        response = original(pool, method, url, *args, **options)
        if method == "PUT" and "comp=lease" not in url and threading.current_thread() is threading.main_thread():
            sent.append(f"{pool.host} {url.partition('?')[0]}")
            if len(sent) == after:
                raise KeyboardInterrupt
        return response

    urllib3.HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        urllib3.HTTPConnectionPool.urlopen = original  # type: ignore[method-assign]


def request(policy: Any, version: str | None, **more: Any) -> PromotionRequest:
    return PromotionRequest(model="digits", stage="production", version=version, actor="ann", policy=policy, **more)


def walk() -> object:
    """Promote version 1, interrupted after every write; then again, a better one, a worse one, back, and forth."""
    writes: list[str] = []
    promoter, policy = opened()
    for _ in range(MOST):
        sent: list[str] = []
        try:
            with interrupted(1, sent):
                first = promoter.promote(request(policy, "1"))
        except KeyboardInterrupt:
            writes += sent[:1]
        else:
            break
    assert promoter.there is not None
    again: list[str] = []
    with interrupted(0, again):
        repeated = promoter.promote(request(policy, "1"))
    records = [[one.id for one in place.record("digits").history] for place in (promoter, promoter.there)]
    second = promoter.promote(request(policy, "2", expect="1"))
    try:
        promoter.promote(request(policy, "1"))
    except GateFailedError as error:
        worse = error.message
    back = promoter.rollback(request(policy, None))
    forth = promoter.promote(request(policy, "2"))
    return {
        "writes": writes,
        "first": first.message,
        "again": [repeated.message, *again],
        "records": records,
        "second": second.message,
        "worse": worse,
        "back": back.message,
        "forth": forth.message,
        "there": {one.version: one.staged for one in promoter.there.service.models("digits")},
        "here": {one.version: one.staged for one in promoter.service.models("digits")},
    }


def tamper(*, path: str) -> object:
    """Change one byte of a file of the newest version in the other workspace."""
    os.environ["AML_WORKSPACE"] = "prod"
    return passport_worker.tamper(path=path)


if __name__ == "__main__":
    step, arguments = sys.argv[1:]
    print(json.dumps(globals()[step](**json.loads(arguments))))
