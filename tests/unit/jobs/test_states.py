from __future__ import annotations

import pytest

from aml_train.errors import CancelledError, JobFailedError, NotRespondingError, ServiceError
from aml_train.jobs.states import JobStatus, failure_of, parse_status


@pytest.mark.parametrize("status", JobStatus)
def test_every_word_of_the_service_has_its_status(status: JobStatus) -> None:
    assert parse_status(status.value) is status
    assert parse_status(status.value.upper()) is status


@pytest.mark.parametrize("word", ["Succeeded", "", None, "Complete", "Runnning"])
def test_an_unknown_word_is_an_error_and_never_a_success(word: str | None) -> None:
    with pytest.raises(ServiceError, match="which this version does not know") as caught:
        parse_status(word)
    assert caught.value.exit_code == 8


@pytest.mark.parametrize(
    ("status", "kind", "code", "word"),
    [
        (JobStatus.FAILED, JobFailedError, 5, "job-failed"),
        (JobStatus.CANCELED, CancelledError, 7, "cancelled"),
        (JobStatus.NOT_RESPONDING, NotRespondingError, 8, "not-responding"),
    ],
)
def test_only_completed_passes(status: JobStatus, kind: type[Exception], code: int, word: str) -> None:
    error = failure_of(status, job="j", reason="because", tail="the end")
    assert isinstance(error, kind)
    assert (error.exit_code, error.status) == (code, word)
    assert "because" in error.message
    assert failure_of(JobStatus.COMPLETED, job="j", reason=None, tail="") is None


def test_the_tail_of_the_log_is_told_for_a_failed_job() -> None:
    error = failure_of(JobStatus.FAILED, job="j", reason=None, tail="ValueError: no data")
    assert error is not None
    assert "ValueError: no data" in error.message


@pytest.mark.parametrize("status", [status for status in JobStatus if not status.terminal])
def test_a_job_that_goes_on_has_no_verdict(status: JobStatus) -> None:
    with pytest.raises(ValueError, match="is not terminal"):
        failure_of(status, job="j", reason=None, tail="")
