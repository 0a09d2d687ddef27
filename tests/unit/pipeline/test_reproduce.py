"""Recipes and the evidence of trainings: written, read, and what of a job they rest on."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.references import ImageRef
from aml_train.core.tags import TAG_DATA, TAG_DIGEST, TAG_FINGERPRINT, TAG_RESUBMITTED, TAG_SOURCE
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, Placement
from aml_train.models.catalogue import StoredFile
from aml_train.models.reproduce import Cause, Difference, Reproduction, Training
from aml_train.pipeline.recipe import Recipe, read_recipe, write_recipe
from aml_train.pipeline.reproduce import failed_reproduction, job_of
from aml_train.pipeline.training import address_of, contents_of, facts_of, place_of
from tests.support.plain_answers import answered

DIGEST = f"sha256:{'a' * 64}"
IMAGE = f"r.azurecr.io/octo/digits@{DIGEST}"
ORIGINAL = Training(
    job="digits-1",
    files={"weights": "00"},
    metrics={"val.loss": 0.25, "odd": math.nan, "far": -math.inf},
    facts={"command": "python train.py", "package.pip:numpy": "2.1.0"},
    changed_data=("digits:3: a.csv",),
)
RECIPE = Recipe(
    model="digits:7",
    source="azureml://jobs/digits-1/outputs/artifacts/paths/outputs/model",
    image=IMAGE,
    document={
        "type": "command",
        "command": "python train.py",
        "inputs": {"data": {"type": "uri_folder", "path": "azureml:digits:3"}, "rate": "0.5"},
        "tags": {"who": "me", f"{TAG_DATA}data": "digits:3", f"{TAG_DATA}file": "sha256:ab", TAG_FINGERPRINT: "old"},
    },
    original=ORIGINAL,
)


def stored(path: str, content: bytes = b"x", md5: str = "") -> StoredFile:
    return StoredFile(path=path, size=len(content), read=partial(iter, [content]), md5=md5)


def test_a_recipe_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "recipe"
    write_recipe(RECIPE, folder, [stored("train.py", b"1"), stored("net/a.py", b"2")])
    found = read_recipe(folder)
    assert (found.model, found.source, found.image, found.document) == (
        RECIPE.model,
        RECIPE.source,
        IMAGE,
        RECIPE.document,
    )
    assert (found.original.files, found.original.facts, found.original.changed_data) == (
        ORIGINAL.files,
        ORIGINAL.facts,
        ORIGINAL.changed_data,
    )
    assert repr(found.original.metrics) == repr(ORIGINAL.metrics)
    assert found.data == {"data": "digits:3"}
    assert found.code is not None
    assert (found.code / "net" / "a.py").read_bytes() == b"2"
    assert place_of(found.view(), "again") == "azureml://jobs/again/outputs/artifacts/paths/outputs/model"
    with pytest.raises(InvalidError, match="is not empty"):
        write_recipe(RECIPE, folder, None)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ""])
def test_code_that_leads_elsewhere_is_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(ServiceError, match="which is no path below a folder"):
        write_recipe(RECIPE, tmp_path / "recipe", [stored(path)])
    assert not (tmp_path / "x").exists()
    with pytest.raises(InvalidError, match=r"training\.json is no recipe: it cannot be read: No such file"):
        read_recipe(tmp_path / "recipe")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 2}, "its format is 2, and this version of aml-train reads 1"),
        ({"image": "?"}, "names an image that is none"),
        ({"model": None}, "model.*nothing"),
        ({"original": {"job": "j", "metrics": {"a": "b"}}}, "metrics.a.*a number"),
        ({"original": []}, "an object"),
        ({"job": "python train.py"}, "job.*an object"),
    ],
)
def test_a_damaged_recipe(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    write_recipe(RECIPE, tmp_path / "recipe", None)
    file = tmp_path / "recipe" / "training.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(InvalidError, match=f"is no recipe: .*{problem}"):
        read_recipe(tmp_path / "recipe")
    file.write_text("{")
    with pytest.raises(InvalidError, match="is no recipe: it is not JSON"):
        read_recipe(tmp_path / "recipe")


def test_the_job_of_a_recipe(tmp_path: Path) -> None:
    write_recipe(RECIPE, tmp_path / "recipe", [stored("train.py"), stored(".env"), stored(".gitignore", b"train.py")])
    image = ImageRef(registry="other.azurecr.io", repository="octo/digits", digest=DIGEST)
    job = job_of(read_recipe(tmp_path / "recipe"), "digits-1-again-x", image=image, compute="cpu")
    assert job.document["environment"] == {"image": f"other.azurecr.io/octo/digits@{DIGEST}"}
    assert (job.document["compute"], job.document["name"]) == ("azureml:cpu", job.name)
    tags = job.document["tags"]
    assert (tags["who"], tags[TAG_DIGEST], tags[TAG_RESUBMITTED]) == ("me", DIGEST, "digits-1")
    assert (tags[f"{TAG_DATA}file"], f"{TAG_DATA}data" in tags) == ("sha256:ab", False)
    assert tags[TAG_FINGERPRINT] == job.fingerprint != "old"
    assert job.code is not None
    assert [entry.path for entry in job.code.entries] == [".env", ".gitignore", "train.py"]
    assert job_of(RECIPE, "n", image=None, compute=None).code is None


def test_facts_of_a_job() -> None:
    view = JobView(
        name="j",
        status=JobStatus.COMPLETED,
        tags={f"{TAG_DATA}data": "digits:3"},
        inputs={"data": "azureml:digits@latest"},
        parameters={"epochs": "20"},
        variables={"SEED": "1"},
        placement=Placement(compute="gpu", nodes=2, size="Standard_NC6"),
    )
    properties = answered(
        {"environmentId": "e:1", "command": "python train.py", "distribution": {"processCountPerInstance": 4}}
    )
    assert facts_of(properties, view) == {
        "image": "e:1",
        "command": "python train.py",
        "compute": "gpu",
        "size": "Standard_NC6",
        "nodes": "2",
        "processes": "4",
        "data.data": "digits:3",
        "parameter.epochs": "20",
        "variable.SEED": "1",
    }


def test_contents_of_data_are_facts_and_one_for_many_files() -> None:
    few = [stored("a.csv", b"12", "ab"), stored("b.csv")]
    assert dict(contents_of("data", few)) == {
        "data.data/a.csv": "ab, 2 bytes",
        "data.data/b.csv": "no checksum, 1 bytes",
    }
    many = [stored(str(number), md5="ab") for number in range(3000)]
    ((name, whole),) = contents_of("data", many)
    assert (name, whole.startswith("3000 files, ")) == ("data.data/", True)
    assert dict(contents_of("data", many[::-1])) == {name: whole}
    changed = [*many[:-1], stored("2999", md5="cd")]
    assert dict(contents_of("data", changed)) != {name: whole}


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("digits:3", "azureml:digits:3"),
        ("azureml://datastores/d/paths/x", "azureml://datastores/d/paths/x"),
        ("sha256:ab", None),
        ("registry/digits:3", None),
        ("https://example.org/x", None),
    ],
)
def test_addresses_of_data(value: str, address: str | None) -> None:
    assert address_of(value) == address


def test_a_model_that_is_elsewhere_cannot_be_compared() -> None:
    model = ModelView(name="m", version="1", path="azureml://datastores/d/paths/m", job="j")
    with pytest.raises(InvalidError, match="The files of m:1 are at no output of its job"):
        place_of(model, "k")
    tagged = ModelView(name="m", version="1", path="", tags={TAG_SOURCE: "azureml://jobs/j/outputs/model"}, job="j")
    assert place_of(tagged, "k") == "azureml://jobs/k/outputs/model"


def test_a_repetition_that_differs_is_an_error_with_its_first_causes() -> None:
    causes = tuple(Cause(kind="code", text=f"code {number}", certain=True) for number in range(7))
    differs = Difference(name="weights", original="0", repeated="1")
    found = Reproduction(original="j", repeated="k", state="different", files=(differs,), causes=causes)
    error = failed_reproduction(found)
    assert error is not None
    assert (error.exit_code, error.message) == (6, "The repetition k differs from j in 1 files")
    assert error.hint == "Likely: code 0; code 1; code 2; code 3; code 4."
    assert failed_reproduction(Reproduction(original="j", repeated="k", state="equivalent")) is None
