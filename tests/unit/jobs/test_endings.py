from __future__ import annotations

import re
from pathlib import Path

import pytest

from aml_train.jobs.states import CONSEQUENCES, Ending, JobStatus, ending_of, failure_of, headline

S = JobStatus
E = Ending
DOCUMENT = Path(__file__).parents[3] / "docs/states.md"
PREEMPTED = (
    "AzureMLCompute job failed.\nPreemptionError: Nodes of this job got pre-empted. Check if the run has failed or"
    " restarted.\n\tReason: Received pre-emption warning signal"
)
PULL = (
    "AzureMLCompute job failed.\nFailedPullingImage: Unable to pull docker image\n\timageName: r.azurecr.io/a\n\terror: Run"
    " docker command to pull public image failed with error: Error response from daemon: unauthorized"
)
HUB = (
    "AzureMLCompute job failed.\nFailedPullingImage: Unable to pull docker image\n\timageName: docker.io/library/python\n\terror: Run"
    " docker command to pull public image failed with error: Error response from daemon: Get https://registry-1.docker.io/v2/: {}"
)
SCRIPT = (
    "Execution failed. User process 'python' exited with status code 1. Please check log file 'user_logs/std_log.txt'"
)
WRAPPER = "AzureMLCompute job failed.\nOrchestrateJobError: Failed to execute command group with error Got CommonRuntimeJobError"


@pytest.mark.parametrize(
    ("reason", "codes", "ending"),
    [
        (PREEMPTED, ("UserError",), E.PREEMPTED),
        (f"UserError: {PREEMPTED}", (), E.PREEMPTED),
        ("Nodes were taken.", ("UserError", "PreemptionError"), E.PREEMPTED),
        (PULL, ("UserError",), E.IMAGE_PULL),
        (
            HUB.format("net/http: request canceled while waiting for connection (Client.Timeout exceeded)"),
            (),
            E.IMAGE_UNREACHABLE,
        ),
        (HUB.format("dial tcp: lookup registry-1.docker.io: no such host"), ("UserError",), E.IMAGE_UNREACHABLE),
        (HUB.format("toomanyrequests: You have reached your pull rate limit."), ("UserError",), E.IMAGE_UNREACHABLE),
        (HUB.format("denied: requested access to the resource is denied"), ("UserError",), E.IMAGE_PULL),
        ("The job's command exited with status code 1: dial tcp: i/o timeout", ("UserError",), E.SCRIPT),
        ("AzureMLCompute job failed.\nAcrRefreshTokenRetrievalError: Unable", ("ServiceError",), E.IMAGE_PULL),
        ("No cores.", ("UserError", "BadArgument", "ClusterCoreQuotaReached"), E.QUOTA),
        (SCRIPT, ("UserError",), E.SCRIPT),
        (SCRIPT, (), E.SCRIPT),
        ("The job's command exited with status code 137. It was killed", ("UserError",), E.OUT_OF_MEMORY),
        ("The input 'data' does not exist.", ("UserError",), E.USER),
        ("instance_count is too high.", ("ValidationError",), E.USER),
        (WRAPPER, ("ServiceError",), E.SERVICE),
        ("Storage does not answer.", ("AzureStorageError",), E.SERVICE),
        ("The node's agent exited with code 5", ("SystemError",), E.SERVICE),
        ("", ("TransientError",), E.SERVICE),
        ("", ("RequestThrottled",), E.SERVICE),
        (None, (), E.UNEXPLAINED),
        ("Something.", ("SomethingNew",), E.UNEXPLAINED),
    ],
)
def test_a_failure_is_told_from_another(reason: str | None, codes: tuple[str, ...], ending: Ending) -> None:
    assert ending_of(S.FAILED, reason=reason, codes=codes) is ending


@pytest.mark.parametrize("lie", [PREEMPTED, PULL, WRAPPER])
def test_what_a_job_prints_is_not_taken_for_the_services_word(lie: str) -> None:
    """The explanation quotes the log; who prints such words is not submitted again for it."""
    reason = f"Execution failed. The job's command exited with status code 3. The last lines of its output:\n{lie}"
    assert ending_of(S.FAILED, reason=reason, codes=("UserError",)) is E.SCRIPT


@pytest.mark.parametrize("reason", [None, PREEMPTED, SCRIPT])
def test_the_other_ends_do_not_depend_on_what_is_said(reason: str | None) -> None:
    for status, ending in (
        (S.COMPLETED, E.COMPLETED),
        (S.CANCELED, E.CANCELLED),
        (S.NOT_RESPONDING, E.NOT_RESPONDING),
    ):
        assert ending_of(status, reason=reason, codes=("UserError",)) is ending


EXITS = {
    E.SCRIPT: (5, "job-failed"),
    E.OUT_OF_MEMORY: (5, "job-failed"),
    E.USER: (5, "job-failed"),
    E.IMAGE_PULL: (5, "job-failed"),
    E.IMAGE_UNREACHABLE: (5, "job-failed"),
    E.SERVICE: (5, "job-failed"),
    E.UNEXPLAINED: (5, "job-failed"),
    E.QUOTA: (8, "service-error"),
    E.PREEMPTED: (8, "preempted"),
    E.NOT_RESPONDING: (8, "not-responding"),
    E.CANCELLED: (7, "cancelled"),
}


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_has_its_consequence(ending: Ending) -> None:
    consequence = CONSEQUENCES[ending]
    assert (consequence.error is None) == (ending is E.COMPLETED)
    if consequence.error is not None:
        assert (consequence.error.exit_code, consequence.error.status) == EXITS[ending]
    assert consequence.says
    assert len(consequence.remedy) > 20


def test_the_error_says_what_why_and_the_remedy() -> None:
    error = failure_of(S.FAILED, job="j", reason=SCRIPT, tail="ValueError: no data", codes=("UserError",))
    assert error is not None
    assert error.message.startswith("The job j failed: its command ended with exit code 1: Execution failed.")
    assert error.message.endswith("\nValueError: no data")
    assert "Correct what" in (error.hint or "")
    lost = failure_of(S.FAILED, job="j", reason=PREEMPTED, tail="", codes=("UserError",))
    assert lost is not None
    assert "`retry: {preempted: N}`" in (lost.hint or "")
    assert failure_of(S.COMPLETED, job="j", reason=None, tail="") is None


def test_what_the_log_shows_is_not_repeated_from_the_explanation() -> None:
    reason = (
        "Execution failed. The job's command exited with status code 3. The last lines of its output:\nup\nbroken"
    )
    error = failure_of(
        S.FAILED, job="j", reason=reason, tail="The last lines of its log:\nup\nbroken", codes=("UserError",)
    )
    assert error is not None
    assert error.message.count("broken") == 1
    assert headline(error.message) == (
        "The job j failed: its command ended with exit code 3: Execution failed. The job's command exited with status code 3."
    )
    alone = failure_of(S.FAILED, job="j", reason=reason, tail="", codes=("UserError",))
    assert alone is not None
    assert alone.message.endswith("output:\nup\nbroken")


def test_the_document_has_every_state_and_every_ending() -> None:
    rows = [line.strip("| \n").split(" | ") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    kinds = {"waits": "waiting", "runs": None, "ends": "ending", "unclear": "limbo", "over": "terminal"}
    states = {row[0].strip("`"): row[1] for row in rows if row[1] in kinds}
    assert set(states) == {status.value for status in JobStatus}
    for status in JobStatus:
        kind = kinds[states[status.value]]
        assert kind is None or getattr(status, kind), status
        assert (kind is None) == (status is S.RUNNING)
    endings = {row[0].strip("`"): row for row in rows if row[0].strip("`") in {one.value for one in Ending}}
    assert set(endings) == {one.value for one in Ending}
    for ending in Ending:
        error = CONSEQUENCES[ending].error
        code, word = (error.exit_code, error.status) if error else (0, "passed")
        _, _, written_code, written_word, remedy = endings[ending.value]
        assert (written_code, written_word) == (str(code), f"`{word}`")
        wanted = CONSEQUENCES[ending].remedy.format()
        assert _plain(remedy) == _plain(wanted), ending


def _plain(text: str) -> str:
    return re.sub(r"[`<>.\s]+", " ", text).strip().lower()


def test_a_known_exception_takes_the_place_of_azuremls_words() -> None:
    reason = "Execution failed. The job's command exited with status code 3. Please check log file 'user_logs/std_log.txt'."
    error = failure_of(
        JobStatus.FAILED, job="j", reason=reason, tail="", cause="KeyError: 'x' (train.py:3)", codes=("UserError",)
    )
    assert error is not None
    assert error.message == "The job j failed: its command ended with exit code 3: KeyError: 'x' (train.py:3)"
