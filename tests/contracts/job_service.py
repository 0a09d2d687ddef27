"""The promises of a workspace, as functions that every implementation must pass.

``tests/unit/jobs/test_contract.py`` runs them against the workspace in memory, ``tests/integration/contract`` against the adapters of both
SDKs over TLS, ``tests/large/test_workspace.py`` in a workspace of Azure. A job's script has a few words, which each `Subject` executes in its own way:

=======================  ====================================================
``say TEXT``             writes a line to the log
``metric N S V``         logs the value V of the metric N at step S
``param N V``            logs the parameter N
``row N JSON``           logs a row of the table N, an object of columns
``write P TEXT``         leaves a file at P, a path among the artefacts
``output N P TEXT``      leaves a file at P in the named output N
``wait TAG``             continues once the job carries the tag, unless cancelled
``exit CODE``            ends the job; without it, it completes
=======================  ====================================================
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import pytest

from aml_train.config.sections.model import ModelConfig
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.errors import CancelledError, InvalidError, RefusedError, ServiceError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.core.threads import CancelToken
from aml_train.gate.history import aggregate
from aml_train.gate.logged import TABLE, columns_of
from aml_train.gate.rules import parse_rule
from aml_train.image.spec import Tested
from aml_train.jobs.attempts import Comparison, resumed_from
from aml_train.jobs.data import DataSource
from aml_train.jobs.identity import identity_difference, job_identity
from aml_train.jobs.placement import Placement
from aml_train.jobs.spec import JobSpec, JobTemplate, artifacts_at, make_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, LogBeganAnewError, ModelView, NewModel, Workspace
from aml_train.models.catalogue import Catalogue
from aml_train.models.register import register_model

LOG: Final = "user_logs/std_log.txt"


class Subject(Protocol):
    """One implementation, and the facts about its workspace that the suite needs.

    Attributes:
        service: what is tested.
        elsewhere: the same for a workspace that is not there.
        signed_out: the same with a secret that is refused.
        catalogue: the models of that workspace, for promotions.
        compute: a compute of the workspace, whose nodes have the VM size *size*.
        seconds: only a job that hangs takes so long, also on a machine under load.
        tags: of every job.
    """

    service: Workspace
    catalogue: Catalogue
    elsewhere: Workspace
    signed_out: Workspace
    compute: str
    size: str
    seconds: float = 300.0
    tags: Mapping[str, str] = MappingProxyType({})

    def command(self, script: Sequence[str]) -> str:
        """Return the command of a job that does what the script says."""
        return "\n".join(script)

    def image(self, digit: str) -> Tested:
        """Return an image as if it had been built and tested; that of another digit is another."""
        digest = "sha256:" + digit * 64
        return tested(ImageRef.parse(f"contract.azurecr.io/train@{digest}"), digest, address=digit * 64)

    def pause(self, seconds: float) -> None:
        """Wait before the job is looked at again."""

    def runconfig(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the run configuration that says the same as the command job *document*; None for the SDK v2."""

    def ingredients(self, job: str) -> tuple[str, str, str | None]:
        """Return what names a job's code and its environment, version and all, and the environment's image."""

    def losing_answers(self) -> AbstractContextManager[object]:
        """Have the first answer to each kind of request that writes be lost meanwhile, though it took effect."""

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, lock_lost: bool = False
    ) -> int:
        """Change a model's tags; return how often the guard was called.

        The guard raises ServiceError if *lock_lost*.
        """

    def ensure_compute(self, cluster: ClusterConfig) -> Sequence[str]:
        """Ensure the cluster, as a target does; return the notices."""


def unique(word: str) -> str:
    """Return a unique name that begins with *word*: the adapters share a workspace."""
    return f"{word}-{uuid.uuid4().hex[:12]}"


def tested(reference: ImageRef, digest: str, *, address: str) -> Tested:
    """Return an image as if it had been built and tested."""
    return Tested(reference=reference, digest=digest, address=address, how="built", record=None, compressed_bytes=1)


def job_of(
    subject: Subject,
    *script: str,
    tags: Mapping[str, str] | None = None,
    digit: str = "a",
    code: Path | None = None,
    compute: str | None = None,
    output: str | None = None,
) -> JobSpec:
    """Return a new job."""
    document: dict[str, Any] = {
        "type": "command",
        "command": subject.command(script),
        "compute": f"azureml:{compute or subject.compute}",
        "experiment_name": "contract",
        "environment_variables": {"SUITE": "contract"},
    }
    if output:
        document["outputs"] = {output: {"type": "uri_folder", "mode": "rw_mount"}}
    files = FileSet.collect(code) if code is not None else None
    template = JobTemplate(
        document=document,
        directory=code or Path("/"),
        code=files,
        code_digest=files.digest() if files is not None else None,
        scope=uuid.uuid4().hex,
        stem="contract",
        tags={**subject.tags, **(tags or {})},
        runconfig=subject.runconfig(document),
    )
    return make_job(template, {"": subject.image(digit)}, 1)


def ended(subject: Subject, name: str) -> JobView:
    """Return the job once it is over."""
    return until(subject, name, lambda view: view.status.terminal)


def until(subject: Subject, name: str, reached: Callable[[JobView], bool]) -> JobView:
    """Return the job once it is as wanted."""
    deadline = time.monotonic() + subject.seconds
    pause = 0.0
    while not reached(view := subject.service.details(name)):
        assert not view.status.terminal, view
        assert time.monotonic() < deadline, view
        subject.pause(pause)
        pause = 0.05
    return view


def submit(subject: Subject, job: JobSpec) -> JobView:
    return subject.service.submit(job, CancelToken())


def log_of(subject: Subject, view: JobView, offset: int = 0) -> bytes:
    return b"".join(subject.service.read_log(view.log_files[LOG], offset))


def a_job_runs_to_its_end(subject: Subject, _tmp_path: Path) -> None:
    team = unique("team")
    job = job_of(subject, "say one", "wait go", "say two", tags={team: "vision"})
    assert subject.service.find(job.name) is None
    before = submit(subject, job)
    assert (before.name, before.experiment, before.status.terminal) == (job.name, "contract", False)
    assert before.placement == Placement(compute=subject.compute)
    running = until(subject, job.name, lambda view: view.status is JobStatus.RUNNING and LOG in view.log_files)
    assert (running.ended, running.error, running.codes) == (None, None, ())

    first = b""
    while not first.endswith(b"\n"):
        subject.pause(0.0)
        first = log_of(subject, until(subject, job.name, lambda view: LOG in view.log_files))
    assert first == b"one\n"
    assert log_of(subject, running, len(first)) == b"", "nothing is behind what was read"
    assert [view.name for view in subject.service.live_jobs(team)] == [job.name]

    subject.service.tag(job.name, {"go": "1", team: "speech"})
    after = ended(subject, job.name)
    assert (after.status, after.error, after.codes) == (JobStatus.COMPLETED, None, ())
    assert after.created is not None
    assert after.started is not None
    assert after.ended is not None
    assert after.created <= after.started <= after.ended
    assert log_of(subject, after, len(first)) == b"two\n", "the log grew behind what was read"
    assert log_of(subject, after, 2) == b"e\ntwo\n"
    for offset in (0, 2, 8, 900):
        passed_on = b"".join(subject.service.read_log_by_service(job.name, LOG, offset))
        assert passed_on == b"one\ntwo\n"[offset:], "without storage"
    assert b"".join(subject.service.read_log_by_service(job.name, "user_logs/none.txt", 0)) == b""
    with pytest.raises(LogBeganAnewError, match=r"the log has 8 bytes, of which 900 were read"):
        log_of(subject, after, 900)

    found = subject.service.find(job.name)
    assert found is not None
    assert found.status is JobStatus.COMPLETED
    assert found.tags.items() >= {"go": "1", team: "speech"}.items()
    assert found.properties.get(Tag.FINGERPRINT) == job.fingerprint
    assert list(subject.service.live_jobs(team)) == []
    assert [view.name for view in subject.service.tagged_jobs(team)] == [job.name]
    assert subject.service.cancel(job.name), "a job that has ended may be cancelled, and stays what it is"
    assert subject.service.details(job.name).status is JobStatus.COMPLETED


def a_job_that_fails_says_why(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(subject, "say up", "exit 3")
    submit(subject, job)
    view = ended(subject, job.name)
    assert view.status is JobStatus.FAILED
    assert view.error is not None
    assert "exited with status code 3" in view.error
    assert view.codes[0] == "UserError"
    assert log_of(subject, view) == b"up\n"


def a_job_is_cancelled(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(subject, "say up", "wait never")
    submit(subject, job)
    until(subject, job.name, lambda view: view.status is JobStatus.RUNNING and LOG in view.log_files)
    assert subject.service.cancel(job.name)
    assert subject.service.cancel(job.name), "a second cancellation changes nothing"
    assert ended(subject, job.name).status is JobStatus.CANCELED
    assert subject.service.cancel(job.name)
    assert not subject.service.cancel("contract-nothing-1"), "there is no such job"


def one_name_is_one_job(subject: Subject, _tmp_path: Path) -> None:
    once = unique("once")
    job = job_of(subject, "wait go", tags={once: "1"})
    with ThreadPoolExecutor(2) as threads:
        views = list(threads.map(lambda _: submit(subject, job), range(2)))
    views.append(submit(subject, job))
    assert {view.name for view in views} == {job.name}
    assert [view.name for view in subject.service.tagged_jobs(once)] == [job.name]

    other = job_of(subject, "say something else")
    imposter = replace(other, name=job.name, document={**other.document, "name": job.name})
    with pytest.raises(RefusedError, match=job.name):
        submit(subject, imposter)
    kept = subject.service.find(job.name)
    assert kept is not None
    assert kept.properties.get(Tag.FINGERPRINT) == job.fingerprint
    subject.service.tag(job.name, {"go": "1"})
    assert ended(subject, job.name).status is JobStatus.COMPLETED


def a_submission_is_called_off_or_has_left(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(subject, "say never")
    submission = CancelToken()
    assert submission.cancel()
    with pytest.raises(CancelledError, match=r"^The submission was cancelled\.$"):
        subject.service.submit(job, submission)
    assert subject.service.find(job.name) is None
    submission = CancelToken()
    subject.service.submit(job, submission)
    assert not submission.cancel(), "the request that makes the job has left"


def a_job_is_submitted_again(subject: Subject, _tmp_path: Path) -> None:
    who = unique("who")
    job = job_of(subject, "write outputs/c/last 1", "say again", "exit 1", tags={who: "me"})
    submit(subject, job)
    assert ended(subject, job.name).status is JobStatus.FAILED
    new = job.name.removesuffix("-1") + "-2"
    for _ in range(2):
        view = subject.service.resubmit(
            job.name,
            new,
            tags={"try": "2"},
            submission=CancelToken(),
            checkpoints=artifacts_at(job.name, "outputs/c"),
        )
        assert resumed_from(view) == job.name
        assert view.name == new
        assert view.tags.items() >= {who: "me", "try": "2", Tag.RESUBMITTED: job.name}.items()
    assert ended(subject, new).status is JobStatus.FAILED
    assert [view.name for view in subject.service.tagged_jobs(who)] == [new, job.name], "the newest first"
    with pytest.raises(ServiceError, match="contract-nothing-1"):
        subject.service.resubmit("contract-nothing-1", "contract-nothing-2", tags={}, submission=CancelToken())


def metrics_are_whole(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(
        subject,
        "metric acc 2 0.5",
        "metric acc 1 0.25",
        "metric acc 2 0.75",
        "metric loss 0 nan",
        "param lr 0.1",
    )
    submit(subject, job)
    ended(subject, job.name)
    last = subject.service.last_metrics(job.name)
    assert last.keys() == {"acc", "loss"}
    assert last["acc"] == 0.75
    assert math.isnan(last["loss"]), "NaN is a value"
    history = subject.service.metric_history(job.name, "acc")
    assert sorted((point.step, point.value) for point in history) == [(1, 0.25), (2, 0.5), (2, 0.75)]
    best = parse_rule("max >= 0").aggregate
    assert aggregate(history, best, greater=True) == 0.75
    (diverged,) = subject.service.metric_history(job.name, "loss")
    assert math.isnan(diverged.value)
    assert subject.service.metric_history(job.name, "nothing") == []
    assert subject.service.logged_parameters(job.name) == {"lr": "0.1"}
    with pytest.raises(ServiceError, match="contract-nothing-1"):
        subject.service.last_metrics("contract-nothing-1")


def tables_are_whole(subject: Subject, _tmp_path: Path) -> None:
    rows = ('row table {"epoch": 1, "note": "a"}', 'row table {"epoch": 2, "note": "b"}')
    job = job_of(subject, "metric acc 1 0.5", *rows)
    submit(subject, job)
    ended(subject, job.name)
    last = subject.service.last_metrics(job.name)
    (table,) = subject.service.logged(job.name, known=set(last)).metrics
    assert (table.name, table.kind, table.whole) == ("table", TABLE, True)
    assert [dict(row.data) for row in table.rows] == [{"epoch": 1, "note": "a"}, {"epoch": 2, "note": "b"}]
    columns = columns_of(subject.service.logged(job.name, known=set(last)))
    assert [point.value for point in columns.series["table.epoch"]] == [1, 2]
    assert "table.note" in columns.problems


def what_a_job_wrote_is_listed_and_read(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(
        subject,
        "write outputs/model/weights 0123456789",
        "write outputs/model/deep/config {}",
        "write outputs/modeling no",
        "output made sub/data.txt x",
        output="made",
    )
    submit(subject, job)
    ended(subject, job.name)
    service = subject.service
    assert sorted(service.artifact_paths(job.name, "outputs/model/")) == [
        "outputs/model/deep/config",
        "outputs/model/weights",
    ]
    assert list(service.artifact_paths(job.name, "outputs/modeling")) == ["outputs/modeling"]
    assert list(service.artifact_paths(job.name, "outputs/mod")) == []
    assert {"outputs/modeling", *service.artifact_paths(job.name, "outputs")} <= {
        *service.artifact_paths(job.name, "")
    }
    assert service.has_artifact(job.name, "outputs/model")
    assert not service.has_artifact(job.name, "outputs/none")
    assert service.read_artifact(job.name, "outputs/model/weights", most=100) == b"0123456789"
    assert service.read_artifact(job.name, "outputs/model/weights", most=4) == b"01234", (
        "one byte more than asked for"
    )
    assert service.read_artifact(job.name, "outputs/none", most=4) is None
    assert list(service.output_paths(job.name, "made")) == ["sub/data.txt"]


def a_model_is_registered_once_with_its_lineage(subject: Subject, _tmp_path: Path) -> None:
    name = unique("model")
    assert subject.service.models(name) == []
    assert subject.service.latest_version("models", name) is None
    jobs = [job_of(subject, f"write outputs/model weights-{number}") for number in range(2)]
    for job in jobs:
        submit(subject, job)
        ended(subject, job.name)
    spec = ModelConfig(name=name, path="outputs/model", type="custom_model", stage="staging")
    lineage = {"aml-train.commit": "f" * 40, "aml-train.image-digest": subject.image("a").digest}
    view, found = register_model(subject.service, spec, job=jobs[0].name, tags=lineage)
    again, found_again = register_model(subject.service, spec, job=jobs[0].name, tags=lineage)
    assert (view.version, found, again.version, found_again) == ("1", False, "1", True)
    second, _ = register_model(subject.service, spec, job=jobs[1].name, tags=lineage)
    assert second.version == "2"
    assert subject.service.latest_version("models", name) == "2"
    newest, oldest = subject.service.models(name)
    assert (newest.version, oldest.version) == ("2", "1"), "the newest first"
    source = f"azureml://jobs/{jobs[0].name}/outputs/artifacts/paths/outputs/model"
    assert oldest.tags == {**lineage, Tag.JOB: jobs[0].name, Tag.SOURCE: source, Tag.STAGE: "staging"}
    assert oldest.staged == "staging"
    assert (oldest.job, oldest.origin) == (jobs[0].name, jobs[0].name)
    assert oldest.properties.items() >= {Tag.JOB: jobs[0].name, "aml-train.commit": "f" * 40}.items()
    assert oldest.type == "custom_model"
    taken = NewModel(
        name=name,
        version="1",
        path=f"azureml://jobs/{jobs[1].name}/outputs/artifacts/paths/outputs/model",
        type="custom_model",
        description=None,
        tags={Tag.JOB: jobs[1].name, Tag.SOURCE: "elsewhere"},
        properties={},
    )
    with pytest.raises(ServiceError, match=name) as caught:
        subject.service.register(taken)
    assert not caught.value.transient
    assert subject.service.models(name)[1] == oldest


def a_model_moves_between_stages(subject: Subject, _tmp_path: Path) -> None:
    name = unique("model")
    job = job_of(subject, "write outputs/model weights")
    submit(subject, job)
    ended(subject, job.name)
    spec = ModelConfig(name=name, path="outputs/model", type="custom_model", tags={"note": "x"})
    register_model(subject.service, spec, job=job.name, tags={})
    (before,) = subject.service.models(name)
    assert before.staged is None

    def version() -> ModelView | None:
        found = subject.catalogue.version(name, "1")
        assert [found] == list(subject.service.models(name))
        return found

    with pytest.raises(ServiceError, match=r"^the lock was lost$"):
        subject.change_tags(name, "1", {Tag.STAGE: "production"}, lock_lost=True)
    assert version() == before, "nothing is written without the lock"
    assert subject.change_tags(name, "1", {Tag.STAGE: "production", "note": None}) == 1
    staged = {key: value for key, value in before.tags.items() if key != "note"} | {Tag.STAGE: "production"}
    assert version() == replace(before, tags=staged), "nothing else of it changes"
    assert subject.change_tags(name, "1", {Tag.STAGE: "production", "note": None}) == 0, "it is as wanted already"
    with pytest.raises(ServiceError, match=f"{name}:2"):
        subject.change_tags(name, "2", {Tag.STAGE: "production"})
    assert name in list(subject.catalogue.names())
    assert subject.catalogue.version(name, "2") is None
    assert subject.catalogue.environment_image(job.name) == str(subject.image("a").reference)
    assert not subject.catalogue.has_data(name, "1"), "a model is no data"


def an_answer_that_is_lost_changes_nothing(subject: Subject, _tmp_path: Path) -> None:
    once, name = unique("once"), unique("model")
    job = job_of(subject, "write outputs/model weights", tags={once: "1"})
    spec = ModelConfig(name=name, path="outputs/model", type="custom_model")
    with subject.losing_answers():
        view = submit(subject, job)
        assert view.tags.items() >= job.document["tags"].items()
        subject.service.tag(job.name, {"more": "2"})
        assert ended(subject, job.name).status is JobStatus.COMPLETED
        model, _ = register_model(subject.service, spec, job=job.name, tags={})
    assert [(view.name, view.tags["more"]) for view in subject.service.tagged_jobs(once)] == [(job.name, "2")]
    assert [one.version for one in subject.service.models(name)] == [model.version] == ["1"]


def what_did_not_change_is_not_sent_again(subject: Subject, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(f"# {uuid.uuid4().hex}")

    def ingredients(digit: str) -> tuple[str, str, str | None]:
        job = job_of(subject, "say code", code=code, digit=digit)
        submit(subject, job)
        return subject.ingredients(job.name)

    first = ingredients("b")
    assert first[2] == str(subject.image("b").reference), "the environment is the digest"
    assert ingredients("b") == first, "neither code nor environment is registered twice"
    (code / "train.py").write_text(f"# {uuid.uuid4().hex}")
    changed, other, image = ingredients("c")
    assert changed != first[0]
    assert (other != first[1], image) == (True, str(subject.image("c").reference))


def a_job_is_known_by_its_definition(subject: Subject, tmp_path: Path) -> None:
    """Tags show nothing, and properties keep their first value."""
    jobs = []
    for word in ("ours", "theirs"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "train.py").write_text(f"{word} {uuid.uuid4().hex}")
        jobs.append(job_of(subject, f"say {word}", code=tmp_path / word))
    ours, theirs = jobs
    submit(subject, ours)
    subject.service.tag(ours.name, {Tag.FINGERPRINT: theirs.fingerprint})
    sdk = "v2" if ours.runconfig is None else "v1"
    for files in (False, True):
        found = subject.service.identity(ours.name, sdk=sdk, files=files)
        assert identity_difference(job_identity(ours, files=files), found) == ()
        assert set(identity_difference(job_identity(theirs, files=files), found)) == {"`command`", "the code"}
    view = subject.service.find(ours.name)
    assert view is not None
    assert view.properties.get(Tag.FINGERPRINT) == ours.fingerprint
    others: list[JobView] = []
    comparison = Comparison(foreign=lambda job, _why: others.append(job), files=True)
    assert comparison.match(subject.service, ours, view) == ours
    assert not others
    ended(subject, ours.name)


def nodes_are_known(subject: Subject, _tmp_path: Path) -> None:
    assert subject.service.node_kind(Placement(compute=subject.compute)).size == subject.size
    lost = subject.service.node_kind(Placement(compute="nothing"))
    assert lost.size is None
    assert lost.problem


def clusters_are_found_or_made(subject: Subject, _tmp_path: Path) -> None:
    cluster = ClusterConfig(name=f"c-{uuid.uuid4().hex[:8]}", size="Standard_DS3_v2", max_nodes=2, where="a.yml:3")
    name, title = cluster.name, f"{cluster.name} (Standard_DS3_v2, 0 to 2 nodes, dedicated)"
    assert subject.ensure_compute(cluster) == [f"Making the compute {title}.", f"The compute {name} is there."]
    assert subject.service.node_kind(Placement(compute=name)).size == "Standard_DS3_v2"
    assert subject.ensure_compute(cluster) == [], "it is there, and what it is to be"
    larger, other = replace(cluster, max_nodes=3), replace(cluster, size="Standard_NC6s_v3", update=True)
    (told,) = subject.ensure_compute(larger)
    assert told.startswith(
        f"The compute {name} is not what a.yml:3 says: max-nodes is 2, not 3. It is used as it is."
    )
    assert told.endswith("`update: true` there changes it.")
    changed = subject.ensure_compute(replace(larger, update=True))
    assert changed == [f"Changing the compute {name}: max-nodes is 2, not 3."]
    assert subject.ensure_compute(larger) == []
    with pytest.raises(InvalidError, match=rf"a\.yml:3: the compute {name} cannot become what is said there: size"):
        subject.ensure_compute(other)
    job = job_of(subject, "say here", compute=name)
    assert submit(subject, job).placement == Placement(compute=name)
    assert ended(subject, job.name).status is JobStatus.COMPLETED


def data_are_known_by_their_files(subject: Subject, _tmp_path: Path) -> None:
    service, sources = subject.service, []
    for text in ("one", "two"):
        job = job_of(subject, f"output made a.txt {text}", f"output made b/c.txt {text}", output="made")
        submit(subject, job)
        ended(subject, job.name)
        sources.append(DataSource(path=f"azureml://jobs/{job.name}/outputs/made"))
    sources.append(DataSource(path="azureml://jobs/contract-nothing-1/outputs/made"))
    first, second, missing = service.identify_data(sources)
    assert ([one.name for one in first.listed], first.files, first.problem) == (["a.txt", "b/c.txt"], 2, "")
    assert first.mark != second.mark
    assert (missing.mark, bool(missing.problem)) == ("", True)
    assert list(service.identify_data(sources[:1])) == [first], "it stays, as long as nothing is written there"
    assert service.identify_data([]) == []


def what_is_not_there_is_told(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(subject, "say never", compute="no-such-cluster")
    with pytest.raises(RefusedError, match="no-such-cluster") as refused:
        submit(subject, job)
    assert refused.value.exit_code == 2
    assert job.name in refused.value.message
    assert subject.service.find(job.name) is None
    nothing = job_of(subject)
    with pytest.raises(RefusedError, match=rf"{nothing.name}.* (no|neither).* command") as refused:
        submit(subject, nothing)
    assert refused.value.exit_code == 2
    assert subject.service.find(nothing.name) is None
    for ask in (subject.service.details, lambda name: subject.service.tag(name, {"a": "b"})):
        with pytest.raises(ServiceError, match="contract-nothing-1") as caught:
            ask("contract-nothing-1")
        assert not caught.value.transient
    assert subject.service.latest_version("data", "nothing") is None


def a_workspace_that_is_not_there_and_a_sign_in_that_is_refused(subject: Subject, _tmp_path: Path) -> None:
    job = job_of(subject, "say never")
    for service, reason in ((subject.elsewhere, "workspace"), (subject.signed_out, "[Ss]ign-in")):
        asks: Sequence[Callable[[Workspace], object]] = (
            lambda service: service.last_metrics(job.name),
            lambda service: service.submit(job, CancelToken()),
        )
        for ask in asks:
            with pytest.raises(ServiceError, match=reason) as caught:
                ask(service)
            assert (caught.value.exit_code, caught.value.transient) == (8, False), caught.value
            assert caught.value.hint, "there is a remedy"
    assert subject.service.find(job.name) is None


CASES: Sequence[Callable[[Subject, Path], None]] = (
    a_job_runs_to_its_end,
    a_job_that_fails_says_why,
    a_job_is_cancelled,
    one_name_is_one_job,
    a_submission_is_called_off_or_has_left,
    a_job_is_submitted_again,
    metrics_are_whole,
    tables_are_whole,
    what_a_job_wrote_is_listed_and_read,
    a_model_is_registered_once_with_its_lineage,
    a_model_moves_between_stages,
    an_answer_that_is_lost_changes_nothing,
    what_did_not_change_is_not_sent_again,
    a_job_is_known_by_its_definition,
    nodes_are_known,
    clusters_are_found_or_made,
    data_are_known_by_their_files,
    what_is_not_there_is_told,
    a_workspace_that_is_not_there_and_a_sign_in_that_is_refused,
)
