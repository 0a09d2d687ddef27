"""Verdicts, baselines and candidates that somebody forged, over the real interfaces of an emulator whose jobs end at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.integration.gate.test_baseline import Project
from tests.support.emulator_process import Emulator

#: What training code can do with the token of its job, and every member of the workspace.
MEMBER = """
import json, os, sys
from pathlib import Path
from aml_train.config.load import load_targets
from aml_train.pipeline.target import Host, open_workspace
targets = load_targets(None, directory=Path())
service = open_workspace(Host(environ=dict(os.environ)), targets.named(None), Path(), lambda _event: None).service
for kind, name, value in json.loads(sys.argv[1]):
    if kind == "tag":
        service.tag(name, value)
    elif kind == "metric":
        url = service.mlflow("/runs/log-metric")
        service.once("POST", url, "log", body={"run_id": name, **value}).raise_for_status()
    elif kind == "model":
        (like,) = [one for one in service.models(name) if one.version == "1"]
        value["tags"] = {**like.tags, **value["tags"]}
        value["properties"] = {**like.properties, **value["tags"]}
        url = service.arm(f"/models/{name}/versions/{value.pop('version')}")
        service.once("PUT", url, "register", params={"api-version": "2023-08-01-preview"}, body={"properties": value}).raise_for_status()
"""


class Registering(Project):
    """A project whose runs register a model."""

    def commit(self, accuracy: float, settings: str = "") -> None:
        super().commit(accuracy, settings)
        job, config = self.folder / "job.yml", self.folder / "aml-train.yml"
        document = json.loads(job.read_text())
        document["command"] += f"\nwrite outputs/model/weights {accuracy}\n"
        job.write_text(json.dumps(document))
        config.write_text(f"{config.read_text()}model: {{name: digits, path: outputs/model}}\n")
        self.git("commit", "-qam", "with a model")


@pytest.fixture
def project(instant: Emulator, tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Registering(instant, folder)
    made.git("init", "-q", "-b", "main")
    made.git("remote", "add", "origin", f"https://github.com/owner/{tmp_path.name}.git")
    made.commit(0.1)
    made.new_data("1,2\n")
    return made


def member(project: Project, *acts: tuple[str, str, Any]) -> None:
    project.emulator.python(project.folder, "-c", MEMBER, json.dumps(acts))


def head(project: Project) -> str:
    done = subprocess.run(
        ["git", "-C", str(project.folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_forged_verdict_is_no_baseline(project: Project) -> None:
    project.commit(0.9)
    first = project.run()
    commit = head(project)
    # A proposal trains something weak under a name of its own, and says of it that main passed.
    project.git("checkout", "-q", "-b", "proposal")
    project.commit(0.5)
    weak = project.run(code=6)
    shown = json.loads(project.aml_train("jobs", "show", first["job"], "--json").stdout)
    verdict = json.loads(shown["tags"]["aml-train.verdict.main"])
    forged = {
        **verdict,
        "at": verdict["at"].replace("+00:00", "9+00:00"),
        "rules": [[*verdict["rules"][0][:2], 0.5, None, "skipped"]],
    }
    assert verdict["commit"] == commit
    member(project, ("tag", weak["job"], {"aml-train.verdict.main": json.dumps(forged)}))
    project.git("checkout", "-q", "main")
    project.commit(0.8)
    worse = project.run(code=6)
    assert f"(that of the job {first['job']} (branch main), 0.9)" in worse["message"]


@pytest.mark.full
def test_metrics_that_were_edited_after_the_verdict_fail_the_rule(project: Project) -> None:
    project.commit(0.9)
    first = project.run()
    member(
        project, ("metric", first["job"], {"key": "accuracy", "value": 0.2, "timestamp": 9999999999999, "step": 5})
    )
    project.commit(0.8)
    refused = project.run(code=6)
    assert f"the verdict of the job {first['job']} on the branch main does not count" in refused["message"]


@pytest.mark.full
def test_a_shallow_history_proves_nothing_and_says_what_to_do(project: Project, tmp_path: Path) -> None:
    project.commit(0.9)
    project.run()
    project.commit(0.95)
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{project.folder}", str(copy)], check=True)
    shallow = Project(project.emulator, copy)
    shallow.git("remote", "set-url", "origin", f"https://github.com/owner/{tmp_path.name}.git")
    assert "check it out with `fetch-depth: 0`" in shallow.run(code=6)["message"]
    (copy / "aml-train.yml").write_text(
        (copy / "aml-train.yml").read_text().replace("bootstrap: true", "bootstrap: true, proof: recorded")
    )
    shallow.git("commit", "-qam", "recorded")
    assert "verdict not proved" in shallow.run()["baseline"]["title"]


def promoted(project: Project, *arguments: str, code: int = 0) -> str:
    done = project.aml_train("promote", *arguments, "--to", "production", "--yes", code=code)
    return done.stdout + done.stderr


@pytest.mark.full
def test_a_model_that_training_code_registered_is_foreign(project: Project, tmp_path: Path) -> None:
    name = f"digits-{tmp_path.name[-12:]}"
    config = project.folder / "aml-train.yml"
    project.commit(0.9)
    config.write_text(config.read_text().replace("name: digits", f"name: {name}"))
    project.git("commit", "-qam", "a name of its own")
    good = project.run()
    # The proposal's training registers what it likes, with all the tags of main's version, and of main's verdict.
    project.git("checkout", "-q", "-b", "proposal")
    project.commit(0.95)
    evil = project.run()
    source = f"azureml://jobs/{evil['job']}/outputs/artifacts/paths/outputs/model"
    tags = {"aml-train.job": evil["job"], "aml-train.model-source": source, "aml-train.stage": "candidate"}
    verdict = json.loads(
        json.loads(project.aml_train("jobs", "show", good["job"], "--json").stdout)["tags"]["aml-train.verdict.main"]
    )
    member(
        project,
        ("tag", evil["job"], {"aml-train.verdict.main": json.dumps(verdict), "aml-train.commit": verdict["commit"]}),
        ("model", name, {"version": "2", "modelUri": source, "modelType": "custom_model", "tags": tags}),
    )
    project.git("checkout", "-q", "main")
    told = promoted(project)
    assert f"{name} version 2 is foreign" in told
    assert f"{name} version 1 is in production, the first one" in told
    assert "is not what the commit" in promoted(project, f"{name}:2", code=6)
    assert "needs a reason" in promoted(project, f"{name}:2", "--allow-foreign", code=2)
    # A person may say that it is meant; the record keeps both.
    promoted(project, f"{name}:2", "--allow-foreign", "--reason", "tried by hand")
    shown = json.loads(project.aml_train("model", "show", f"{name}:2", "--json").stdout)
    assert "is not what the commit" in json.dumps(shown["promotions"])


class Signing(Registering):
    """A project whose runs sign, with a policy that says whose signatures count."""

    def commit(self, accuracy: float, settings: str = "") -> None:
        super().commit(accuracy, settings)
        if not (self.folder / "signing.pem").exists():
            key = ec.generate_private_key(ec.SECP256R1())
            private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (self.folder / "signing.pem").write_bytes(private)
            public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            (self.folder / "signing.pub").write_bytes(public)
            (self.folder / "passport-policy.yml").write_text("keys: [signing.pub]\n")
            (self.folder / ".gitignore").write_text("*.pem\n")
        config = self.folder / "aml-train.yml"
        config.write_text(f"{config.read_text()}passport: {{key: signing.pem, policy: passport-policy.yml}}\n")
        self.git("add", ".")
        self.git("commit", "-qm", "signed")


@pytest.mark.full
def test_only_sealed_verdicts_count_where_a_policy_says_whose(project: Project, tmp_path: Path) -> None:
    signing = Signing(project.emulator, project.folder)
    signing.commit(0.9)
    first = signing.run()
    signing.commit(0.95)
    second = signing.run()
    assert second["baseline"]["job"] == first["job"]
    # No history is needed: whoever has the key has seen it.
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{project.folder}", str(copy)], check=True)
    shutil.copy(project.folder / "signing.pem", copy)
    shallow = Signing(project.emulator, copy)
    shallow.git("remote", "set-url", "origin", f"https://github.com/owner/{tmp_path.name}.git")
    shallow.commit(0.96)
    third = shallow.run()
    assert third["baseline"]["job"] == second["job"]
    # A member makes the newest verdict easier to meet, and consistently so.
    shown = json.loads(signing.aml_train("jobs", "show", third["job"], "--json").stdout)
    verdict = json.loads(shown["tags"]["aml-train.verdict.main"])
    weaker = {
        **verdict,
        "rules": [[*verdict["rules"][0][:2], 0.1, 0.05, "met"]],
        "at": verdict["at"].replace("+00:00", "9+00:00"),
    }
    member(project, ("tag", third["job"], {"aml-train.verdict.main": json.dumps(weaker)}))
    shallow.commit(0.97)
    # That verdicts need no proof does not make them count without a seal.
    config = copy / "aml-train.yml"
    config.write_text(config.read_text().replace("bootstrap: true", "bootstrap: true, proof: recorded"))
    shallow.git("commit", "-qam", "recorded")
    assert "its tags are not what was sealed: at" in shallow.run(code=6)["message"]
