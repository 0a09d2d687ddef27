"""examples/release-pipeline with production in another workspace: promoted by its digest, and the model runs there."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Local, edit
from tests.e2e.test_proof import commit

CONFIG = ("--config", "two-workspaces.yml")


@pytest.mark.full
def test_production_in_another_workspace_gets_the_tested_image_and_the_model_runs_in_it(
    local: Local, tmp_path: Path
) -> None:
    project, mark = tmp_path / "release-pipeline", secrets.token_hex(3)
    ignored = shutil.ignore_patterns("__pycache__", "mlruns*", "outputs", ".pytest_cache")
    shutil.copytree(ROOT / "examples/release-pipeline", project, ignore=ignored)
    edit(project / "two-workspaces.yml", "name: moons-across", f"name: moons-{mark}")
    edit(project / "job.yml", "experiment_name: moons", f"experiment_name: moons-{mark}")
    commit(project)
    local.command("emulator", "workspace", "create", "prod")
    prod = replace(local, environment={**local.environment, "AML_TRAIN_EMULATOR_WORKSPACE": "prod"})

    trained = local.run(project, *CONFIG)
    assert trained.code == 0, trained.output
    digest = trained.only("image-ready")["digest"]
    change = ("--to", "production", "--yes", "-C", str(project), *CONFIG)
    promoted = local.command("promote", *change)
    assert f"moons-{mark} version 1 is in production of the workspace prod as version 1, the first one." in promoted
    assert "already: nothing was changed" in local.command("promote", *change)

    name = f"moons-{mark}@production"
    lineage = json.loads(prod.command("model", "lineage", name, "--json"))
    files, job = lineage["parts"]
    assert (lineage["state"], files["state"], job["name"]) == (
        "verified",
        "verified",
        trained.only("job-submitted")["job"],
    )
    assert [(one["kind"], one["state"]) for one in job["parts"][:2]] == [("image", "verified"), ("tests", "verified")]
    assert job["parts"][0]["name"] == digest

    image = json.loads(prod.command("model", "show", name, "--json"))["tags"]["aml-train.image"]
    assert image.endswith(f"@{digest}")
    use = tmp_path / "use"
    use.mkdir()
    work = {
        "type": "command",
        "command": "python -c \"import json; print('degree', json.load(open('${{inputs.model}}/model.json'))['degree'])\"",
        "environment": {"image": image},
        "inputs": {"model": {"type": "custom_model", "path": f"azureml:moons-{mark}:1"}},
        "compute": "azureml:local-cluster",
        "experiment_name": f"use-{mark}",
    }
    (use / "aml-train.yml").write_text(json.dumps({"job": work}))
    used = prod.run(use)
    assert used.code == 0, used.output
    assert "degree 3" in used.output
