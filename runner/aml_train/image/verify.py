"""Check and test an image before its release, or use what earlier runs recorded."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from aml_train.core.events import ImageChecked, StageStarted, TestsFinished
from aml_train.core.threads import CancelToken
from aml_train.image.context import ImageContext
from aml_train.image.readiness.check import (
    judge_facts,
    load_facts,
    probe_image,
    readiness_error,
    store_facts,
    summary,
)
from aml_train.image.readiness.facts import Facts
from aml_train.image.records import known_record, results_of, store_record
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import TestRecord
from aml_train.image.testing.run import run_tests

if TYPE_CHECKING:
    from aml_train.image.builder import Builder


def verify_image(
    ctx: ImageContext, image_id: str, *, check: bool, test: bool, token: CancelToken | None = None
) -> tuple[TestsFinished | None, Facts | None]:
    """Check an image that the engine has, and then run its tests: one that is not ready is the better reason of a failure."""
    token, facts, results = token or CancelToken(), None, None
    if check:
        started = start_checks(ctx)
        facts = probe_image(ctx.docker, image_id, token=token)
        judge(ctx, facts, started)
    if test and ctx.tests is not None:
        with ctx.stage("tests", f"tests in the image: {ctx.tests.command}") as summary:
            results = run_tests(image_id, ctx.tests, engine=ctx.docker, listener=ctx.listener, token=token)
            summary.append("passed" if results.passed is None else f"{results.passed} passed")
    return results, facts


def start_checks(ctx: ImageContext) -> float:
    """Report that the checks begin; return when that is."""
    ctx.listener(StageStarted(stage="check", title="checks of the image: AzureML, InfiniBand"))
    return time.monotonic()


def judge(ctx: ImageContext, facts: Facts, started: float, *, cached: bool = False) -> None:
    """Judge facts of the image; *cached* if an earlier run found them.

    Raises:
        ImageError: a check fails.
    """
    findings = judge_facts(facts, ctx.spec.checks)
    ctx.listener(ImageChecked(findings=findings, cached=cached, where=ctx.spec.checks.where))
    if (error := readiness_error(findings)) is not None:
        raise error
    ctx.finish("check", summary(findings) + (", as it was found before" if cached else ""), started, skipped=cached)


def read_record(ctx: ImageContext, digest: str) -> TestRecord | None:
    """Return the record of the tests in the image *digest*; None if they must run.

    Raises:
        ImageError: the registry refuses, or has something else under the record's tag.
    """
    if ctx.tests is None or ctx.tests.keep:  # a container that is kept must run
        return None
    return known_record(ctx.registry, ctx.spec, ctx.tests, digest)


def verify_found(
    ctx: ImageContext, found: Manifest, builder: Callable[[], Builder], record: TestRecord | None
) -> TestRecord | None:
    """Verify an image that the registry has: run only what *record* and the facts of earlier checks do not cover."""
    digest, known = found.digest, None
    for place in ctx.places:
        known = known or load_facts(ctx.registry, place, digest)
    if known is not None:
        judge(ctx, known, start_checks(ctx), cached=True)
    if record is not None:
        ctx.listener(StageStarted(stage="tests", title=f"tests in the image: {record.command}"))
        ctx.listener(results_of(record))
        ctx.finish("tests", f"passed in this image at {record.at}", time.monotonic(), skipped=True)
    test = record is None and ctx.tests is not None
    if known is not None and not test:
        return record
    results, facts = builder().verify(ctx, found, check=known is None, test=test)
    if facts is not None:
        store_facts(ctx.registry, ctx.own, digest, facts)
    if test and (record := make_record(ctx, digest, results)) is not None:
        store_record(ctx.registry, ctx.own, record)
    return record


def make_record(ctx: ImageContext, digest: str, results: TestsFinished | None) -> TestRecord | None:
    """Return the record of tests that passed in the image *digest*; None without any."""
    if results is None or ctx.tests is None:
        return None
    return TestRecord(
        digest=digest,
        key=ctx.tests.key(digest),
        command=ctx.tests.command,
        passed=results.passed,
        failed=results.failed,
        skipped=results.skipped,
        seconds=results.seconds,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=ctx.commit,
    )
