"""How jobs end on an emulator that is told what Azure does to them; the pipeline and azure-ai-ml are those of every run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import BASE
from tests.integration.pipeline.conftest import AmlTrain, Ended, Running
from tests.support.emulator_process import Emulator

#: Long enough for a machine that does ten things at once; nothing here waits for time, but for what happens.
PATIENCE = 900
PULL = "AzureMLCompute job failed.\nClusterCoreQuotaReached: The cluster cannot grow."
#: The first attempt runs until its nodes are taken away.
TWICE = 'echo "attempt $AZUREML_RUN_ID"; case "$AZUREML_RUN_ID" in *-1) sleep 9000;; esac; echo done'


def project(folder: Path, emulator: Emulator, name: str, command: str, extra: Mapping[str, Any]) -> Path:
    """Make a project whose job runs on a cluster of low priority; JSON is YAML."""
    folder = folder / name
    folder.mkdir()
    job = {"command": command, "environment": {"image": BASE}, "experiment_name": name}
    cluster = {"name": "spot", "size": "Standard_NC6s_v3", "max-nodes": 4, "tier": "spot"}
    target = {**emulator.target(), "compute": cluster}
    settings = {"job": job, "target": "azure", "targets": {"azure": target}, **extra}
    (folder / "aml-train.yml").write_text(json.dumps(settings))
    return folder


def start(emulator: Emulator, folder: Path, command: str, *arguments: str) -> Running:
    events = folder / f"{command}.jsonl"
    return Running(emulator, folder, (command, "--events", str(events), *arguments), events)


def until(running: Running, kind: str, **fields: str) -> dict[str, Any]:
    """Return the first event of that kind whose fields begin so."""
    assert running.events is not None
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        lines = running.events.read_text().split("\n")[:-1] if running.events.exists() else []
        for event in map(json.loads, lines):
            if event["event"] == kind and all(str(event[key]).startswith(value) for key, value in fields.items()):
                return dict(event)
        if running.process.poll() is not None:
            break
        time.sleep(0.1)
    running.process.kill()
    pytest.fail(f"there is no {kind} {fields}: {running.process.communicate()}")


def verdict(ended: Ended) -> tuple[int, str, str]:
    """Return exit code, status word and ending."""
    last = ended.events[-1]
    assert last["event"] == "run-finished", ended.errors
    assert last["exit_code"] == ended.code
    return ended.code, last["status"], last["facts"].get("ending", "")


def provoke(emulator: Emulator, job: str, what: str) -> None:
    answer = emulator.admin("POST", f"jobs/{job}/{what}")
    assert answer.status_code == 200, answer.text


@pytest.mark.full
def test_a_preempted_job_is_submitted_again_also_by_who_attaches(emulator: Emulator, tmp_path: Path) -> None:
    before = sum(emulator.admin("GET", "status").json()["jobs"].values())
    prices = {"Standard_NC6s_v3": {"dedicated": 9.0, "low-priority": 2.0}}
    cost = {"currency": "EUR", "prices": prices, "max-cost": 1000}
    retried = project(tmp_path, emulator, "retried", TWICE, {"retry": {"preempted": 1}, "cost": cost})
    left = project(tmp_path, emulator, "left", TWICE, {})
    runs = {folder.name: start(emulator, folder, "run") for folder in (retried, left)}
    for running in runs.values():
        line = until(running, "log-line", text="attempt ")
        provoke(emulator, line["text"].split()[1], "preempt?fail=1")

    lost = runs["left"].ended()
    assert verdict(lost) == (8, "preempted", "preempted")
    assert "`retry: {preempted: N}`" in lost.events[-1]["hint"]
    path = left / "aml-train.yml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "retry": {"preempted": 1}}))
    attached = start(emulator, left, "attach", lost.job)

    whole = runs["retried"].ended()
    facts = whole.events[-1]["facts"]
    assert facts["gpu_hours"] == facts["node_hours"] > 0, "of one GPU on one node"
    assert (facts["cost"], facts["currency"]) == (pytest.approx(2 * facts["node_hours"]), "EUR")

    for first, ended in (("", whole), (lost.job, attached.ended())):
        assert verdict(ended) == (0, "passed", "completed"), ended.errors
        one, two = [event for event in ended.events if event["event"] == "job-submitted"]
        assert (one["attempt"], two["attempt"]) == (1, 2)
        assert one["job"] == (first or one["job"])
        assert two["job"] == one["job"].removesuffix("-1") + "-2"
        attempts = ended.events[-1]["facts"]["attempts"]
        assert [attempt["ending"] for attempt in attempts] == ["preempted", "completed"]
        assert ended.log()[-2:] == [f"attempt {two['job']}", "done"]
    jobs = emulator.admin("GET", "status").json()["jobs"]
    assert sum(jobs.values()) - before == 4, "exactly one job for each attempt"


def test_every_end_has_its_code_its_word_and_its_remedy(aml_train: AmlTrain, tmp_path: Path) -> None:
    emulator = aml_train.emulator
    empty = tmp_path / "empty"
    empty.mkdir()

    def submit(name: str, command: str, *sets: str, image: str = BASE) -> Running:
        options = ("--name", name, *(word for text in sets for word in ("--set", text)))
        return aml_train.submit(empty, "sh", "-c", command, image=image, options=options)

    quick = {
        "broken": submit("broken", "exit 3"),
        "unpulled": submit("unpulled", "true", image="no.such.host.invalid/image:1"),
        "late": submit("late", "echo up; sleep 9000", "watch.run-timeout=1s"),
    }
    ends = {name: running.ended() for name, running in quick.items()}
    assert verdict(ends["broken"]) == (5, "job-failed", "script-failed")
    assert "its command ended with exit code 3" in ends["broken"].events[-1]["message"]
    assert verdict(ends["unpulled"]) == (5, "job-failed", "image-registry-unreachable")
    assert "the compute's network" in ends["unpulled"].events[-1]["hint"]
    assert verdict(ends["late"]) == (7, "timed-out", "cancelled")
    assert (
        "(watch.run-timeout); its cancellation was requested, and it is Canceled."
        in ends["late"].events[-1]["message"]
    )

    slow = {name: submit(name, "echo up; sleep 9000") for name in ("faulty", "quota", "odd")}
    for running in slow.values():
        until(running, "job-status-changed")  # the cluster has fewer nodes than there are jobs, perhaps: one waits
    answer = emulator.admin("POST", "jobs/faulty/preempt")
    assert (answer.status_code, "are dedicated" in answer.text) == (400, True)
    provoke(emulator, "faulty", "show?status=Paused")
    until(slow["faulty"], "job-status-changed", status="Paused")
    provoke(emulator, "faulty", "fail?code=ServiceError&message=Storage%20is%20away.")
    provoke(emulator, "quota", "show?status=NotResponding")
    until(slow["quota"], "job-status-changed", status="NotResponding")
    provoke(emulator, "quota", "show")
    provoke(emulator, "quota", f"fail?code=UserError&message={PULL}")
    provoke(emulator, "odd", "show?status=Meditating")
    ends = {name: running.ended() for name, running in slow.items()}
    assert verdict(ends["faulty"]) == (5, "job-failed", "service-error")
    assert "by a fault of AzureML, not of the job: Storage is away." in ends["faulty"].events[-1]["message"]
    assert verdict(ends["quota"]) == (8, "service-error", "no-quota")
    assert verdict(ends["odd"])[:2] == (8, "service-error")
    assert "the job status 'Meditating', which this version does not know" in ends["odd"].events[-1]["message"]
    assert emulator.admin("POST", "jobs/faulty/show").status_code == 409
    assert emulator.admin("POST", "jobs/nothing/show").status_code == 404
