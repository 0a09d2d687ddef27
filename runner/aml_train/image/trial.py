"""What an image is put to before it is released: the readiness checks and the tests, run in it or known from an earlier run."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
import time
from dataclasses import dataclass

from aml_train.core.errors import TestsFailedError
from aml_train.core.events import StageStarted, TestsFinished
from aml_train.core.threads import CancelToken, WorkCancelledError, run_parallel
from aml_train.image.readiness.check import Checks, load_facts, store_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.readiness.judge import probe_key
from aml_train.image.records import load_record, store_record
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import TestRecord
from aml_train.image.testing.run import TestResults, run_tests
from aml_train.image.work import Work


@dataclass(frozen=True)
class Trial:
    """The checks and the tests of one run of the stage."""

    work: Work

    @property
    def _checks(self) -> Checks:
        return Checks(policy=self.work.spec.checks, listener=self.work.listener)

    def inside(self, image_id: str, token: CancelToken) -> tuple[TestResults | None, Facts]:
        """Check the image and run its tests, both at once."""
        if self.work.tests is None:
            return None, self._checks.look(self.work.engine, image_id, token)
        checked = threading.Event()

        def check(token: CancelToken) -> Facts:
            facts = self._checks.look(self.work.engine, image_id, token)
            # Where it fails, the tests are told to stop as soon as the failure is on record: it comes first, whoever is quicker.
            checked.set()
            return facts

        def test(token: CancelToken) -> TestResults | None:
            try:
                return self._run_tests(image_id, token)
            except TestsFailedError:
                # An image that is not ready is the likely reason, and the better one to hear of.
                with contextlib.suppress(WorkCancelledError), token.on_cancel(checked.set):
                    checked.wait()
                raise

        return run_parallel(test, check, name="check", ended="The tests were ended.", token=token)

    def of_found(self, found: Manifest) -> TestRecord | None:
        """Have an image that the registry has checked and tested; do only what no record tells."""
        repository, digest, record = self.work.spec.repository, found.digest, None
        if self.work.tests is not None and not self.work.tests.keep:  # what is to be kept must run
            record = load_record(self.work.registry, repository, digest, self.work.tests.key(digest))
        known = record.facts if record is not None and record.probe == probe_key() else None
        if known is None:
            known = load_facts(self.work.registry, repository, digest)
        if known is not None:
            self._checks.recall(known)
        if record is not None:
            self._tell_cached(record)
        if known is not None and (record is not None or self.work.tests is None):
            return record
        image_id = self.work.pull(found)
        if record is not None or known is not None:
            # One of the two is there.
            facts = self._checks.look(self.work.engine, image_id, CancelToken()) if known is None else known
            results = self._run_tests(image_id, CancelToken()) if record is None else None
        else:
            results, facts = self.inside(image_id, CancelToken())
        if known is None:
            store_facts(self.work.registry, repository, digest, facts)
        if record is not None:
            record = dataclasses.replace(record, facts=facts, probe=probe_key())
        else:
            record = self.record(digest, results, facts)
        if record is not None:
            store_record(self.work.registry, repository, record)
        return record

    def _run_tests(self, image_id: str, token: CancelToken) -> TestResults | None:
        if self.work.tests is None:
            return None
        with self.work.stage("tests", f"tests in the image: {self.work.tests.command}") as done:
            results = run_tests(
                image_id, self.work.tests, engine=self.work.engine, listener=self.work.listener, token=token
            )
            done(f"{results.passed} passed" if results.report else "passed")
        return results

    def record(self, digest: str, results: TestResults | None, facts: Facts) -> TestRecord | None:
        if results is None or self.work.tests is None:
            return None
        return TestRecord(
            digest=digest,
            key=self.work.tests.key(digest),
            command=self.work.tests.command,
            passed=results.passed,
            failed=results.failed,
            skipped=results.skipped,
            seconds=results.seconds,
            at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            commit=self.work.commit,
            facts=facts,
            probe=probe_key(),
        )

    def _tell_cached(self, record: TestRecord) -> None:
        started = time.monotonic()
        self.work.listener(StageStarted(stage="tests", title=f"tests in the image: {record.command}"))
        self.work.listener(
            TestsFinished(
                passed=record.passed,
                failed=record.failed,
                skipped=record.skipped,
                seconds=record.seconds,
                cached=True,
            )
        )
        self.work.finish("tests", f"passed in this image at {record.at}", started, skipped=True)
