from __future__ import annotations

import pytest

from aml_train.core.errors import ServiceError
from aml_train.jobs.states import JobStatus, parse_status


@pytest.mark.parametrize("status", JobStatus)
def test_every_word_of_the_service_has_its_status(status: JobStatus) -> None:
    assert parse_status(status.value) is status
    assert parse_status(status.value.upper()) is status


@pytest.mark.parametrize("word", ["Succeeded", "", None, "Complete", "Runnning"])
def test_an_unknown_word_is_an_error_and_never_a_success(word: str | None) -> None:
    with pytest.raises(ServiceError, match="which this version does not know") as caught:
        parse_status(word)
    assert caught.value.exit_code == 8


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_is_one_thing(status: JobStatus) -> None:
    kinds = [status.terminal, status.waiting, status.ending, status.limbo, status is JobStatus.RUNNING]
    assert kinds.count(True) == 1
    assert status.final == (status in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED))


@pytest.mark.parametrize(
    "words",
    [
        # azure-ai-ml 1.34.1, operations/_run_history_constants.py, ALL_STATUSES
        "Queued Preparing Provisioning Starting Running CancelRequested Canceled Finalizing Completed NotStarted Paused NotResponding",
        # azure-ai-ml 1.34.1, _restclient/v2024_01_01_preview, JobStatus
        "NotStarted Starting Provisioning Preparing Queued Running Finalizing CancelRequested Completed Failed Unknown Scheduled",
        # azureml-mlflow 1.62.0, _restclient/run_artifact, RunStatus
        "NotStarted Unapproved Pausing Paused Starting Preparing Queued Running Finalizing CancelRequested Completed Canceled",
    ],
)
def test_the_clients_words_are_all_known(words: str) -> None:
    assert [parse_status(word).value for word in words.split()] == words.split()
