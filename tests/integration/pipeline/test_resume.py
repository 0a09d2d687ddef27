"""Trainings whose nodes are taken away: shown to resume, or not, and judged by what their last attempt is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import BASE
from tests.integration.pipeline.test_states import provoke, start, until, verdict
from tests.support.emulator_process import Emulator

#: Logs as MLflow does, whose client the image does not have.
LOG = """
import json, os, pathlib, sys, time, urllib.request

def log(name, value, step):
    url = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://") + "/api/2.0/mlflow/runs/log-metric"
    values = {"run_id": os.environ["MLFLOW_RUN_ID"], "key": name, "value": value, "step": step}
    body = json.dumps({**values, "timestamp": int(time.time() * 1000)}).encode()
    token = os.environ["MLFLOW_TRACKING_TOKEN"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
"""

TRAIN = """
loss, begin, saved = 10.0, 0, pathlib.Path("outputs/checkpoints/last.json")
saved.parent.mkdir(parents=True)
given = os.environ.get("AZURE_ML_INPUT_resume")
print("given", given, flush=True)
if given and sys.argv[1] == "loads":
    loss, begin = json.loads(pathlib.Path(given, "last.json").read_text())
for step in range(begin, 30):
    loss *= 0.9
    log("loss", loss, step)
    if step % 3 == 0:
        written = saved.with_suffix(".new")
        written.write_text(json.dumps([loss, step + 1]))
        written.rename(saved)
    time.sleep(0.3)
"""

SHORTER = """
kept = pathlib.Path(sys.argv[1], "attempt")
if kept.exists():
    for step in range(2):
        log("acc", 0.3, step)
else:
    kept.write_text("1")
    for step in range(5):
        log("acc", 0.99, step)
    print("waiting", flush=True)
    time.sleep(3600)
"""

CHECK = """
import json, os, sys
from pathlib import Path

import requests

from aml_train.config.load import load_config
from aml_train.core.errors import AmlTrainError
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.target import Host
from aml_train.resume_check import check_resume

def preempt(job):
    with requests.Session() as session:
        session.trust_env = False
        session.post(f"{sys.argv[1]}/jobs/{job}/preempt?force=1&fail=1").raise_for_status()

config = load_config(None, directory=Path(), sets=sys.argv[2:])
prepared = prepare_run(config, Host(environ=dict(os.environ)))
found, code = check_resume(prepared, preempt=preempt, step=None, tolerance=0.01, listener=lambda event: None), 0
try:
    found.require()
except AmlTrainError as error:
    code = error.exit_code
print(json.dumps({"code": code, **found.facts()}))
"""


def project(folder: Path, emulator: Emulator, code: str, job: dict[str, Any], **settings: Any) -> Path:
    """Make a project whose job runs *code*; JSON is YAML."""
    (folder / "src").mkdir(parents=True)
    (folder / "src/train.py").write_text(LOG + code)
    job = {"code": "src", "environment": {"image": BASE}, "experiment_name": folder.name, **job}
    targets = {"azure": emulator.target()}
    (folder / "aml-train.yml").write_text(json.dumps({"job": job, "target": "azure", "targets": targets, **settings}))
    return folder


@pytest.mark.full
def test_a_true_contract_holds_and_a_false_one_is_refused_with_both_curves(
    emulator: Emulator, tmp_path: Path
) -> None:
    job = {"command": "python train.py ${{inputs.how}}", "inputs": {"how": "loads"}}
    resume = {"path": "outputs/checkpoints", "metric": "loss", "every": 5}
    folder = project(tmp_path / "resuming", emulator, TRAIN, job, gate={"loss": "< 1"}, resume=resume)

    def check(*sets: str) -> dict[str, Any]:
        admin = f"http://127.0.0.1:{emulator.port}/_emulator"
        return dict(json.loads(emulator.python(folder, "-c", CHECK, admin, *sets).stdout.splitlines()[-1]))

    true = check()
    assert (true["code"], true["problems"]) == (0, []), true
    assert true["resumed_from"] == true["attempts"][0]
    assert 0 <= true["repeated_steps"] <= 5
    curves = true["metrics"]["loss"]
    assert curves["undisturbed"][-1] == curves["resumed"][-1], "the same training"
    assert curves["resumed"][0][0] > 10

    false = check("job.inputs.how=ignores")
    assert false["code"] == 6
    assert false["problems"] == ["the second attempt starts from the beginning, at step 0"]
    curves = false["metrics"]["loss"]
    assert [len(curves[name]) for name in ("undisturbed", "resumed")] == [30, 30]
    assert curves["preempted"][-1][0] >= 15


@pytest.mark.full
def test_a_job_that_starts_over_in_the_queue_is_judged_by_its_last_attempt(
    emulator: Emulator, tmp_path: Path
) -> None:
    job = {"command": "python train.py ${{outputs.kept}}", "outputs": {"kept": {"type": "uri_folder"}}}
    folder = project(tmp_path / "shorter", emulator, SHORTER, job, gate={"acc": [">= 0.9", "max < 0.5"]})
    running = start(emulator, folder, "run")
    until(running, "log-line", text="waiting")
    name = until(running, "job-named")["job"]
    provoke(emulator, name, "preempt?force=1")
    ended = running.ended()
    assert verdict(ended)[:2] == (6, "gate-failed"), ended.errors
    rules = [event for event in ended.events if event["event"] == "rule-verdict"]
    assert [(one["verdict"], one["value"]) for one in rules] == [("missed", 0.3), ("met", 0.3)]
