"""From an environment to its image: what is built, what curated names stand for, what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.domain.curated_images import CuratedImages
from aml_emulator.executor.spec import BuildSpec, Folder, spec_from_json, spec_to_json
from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

CONDA = "dependencies:\n- python=3.11\n"
CONTEXT = f"https://{IDENTITY.blob_host}/{IDENTITY.blob_container}/LocalUpload/abc/context/"


def build_of(service: Service, name: str, **properties: Any) -> BuildSpec:
    answer = service.submit(name, environmentId=service.environment(name, **properties))
    assert answer.status == 201, answer.body
    spec = service.runner.submitted[-1]
    assert spec.build is not None
    assert spec.build.tag == spec.image
    assert spec_from_json(spec_to_json(spec)) == spec
    return spec.build


def test_an_environment_of_a_build_context_is_built(service: Service) -> None:
    build = build_of(
        service, "ctx", image=None, build={"contextUri": CONTEXT, "dockerfilePath": "docker/Dockerfile.gpu"}
    )
    assert (build.title, build.dockerfile, build.conda) == ("ctx:1", "docker/Dockerfile.gpu", None)
    assert build.context == Folder(container=IDENTITY.blob_container, prefix="LocalUpload/abc/context")
    other = build_of(service, "other", image=None, build={"contextUri": CONTEXT})
    same = build_of(service, "same", image=None, build={"contextUri": CONTEXT, "dockerfilePath": "Dockerfile"})
    assert other.dockerfile == "Dockerfile"
    assert other.tag == same.tag != build.tag


def test_a_context_that_is_uploaded_again_is_the_same() -> None:
    service = Service(blobs=StoredBlobs())
    blobs, container = service.services.blobs, IDENTITY.blob_container
    for folder, content in (("one", b"FROM a"), ("two", b"FROM a"), ("other", b"FROM b")):
        blobs.write(container, f"{folder}/Dockerfile", io.BytesIO(content), len(content))

    def put(folder: str, dockerfile: str = "Dockerfile") -> Answer:
        uri = f"azureml://datastores/workspaceblobstore/paths/{folder}/"
        build = {"contextUri": uri, "dockerfilePath": dockerfile}
        return service.call("PUT", f"{WS}/environments/e/versions/1", {"properties": {"build": build}})

    first = put("one")
    assert first.status == 201
    again = put("two")
    assert again.json["properties"]["build"] == first.json["properties"]["build"]
    for refused in (put("other"), put("two", "Dockerfile.gpu"), put("nowhere")):
        assert (refused.status, "build cannot be changed" in refused.json["error"]["message"]) == (409, True)


def test_an_environment_of_a_conda_file_is_built_over_its_image(service: Service) -> None:
    build = build_of(service, "conda", condaFile=CONDA)
    assert (build.base, build.conda, build.context) == ("python:3.11", CONDA, None)
    assert build_of(service, "twin", condaFile=CONDA).tag == build.tag
    assert build_of(service, "more", condaFile=CONDA + "- numpy\n").tag != build.tag


@pytest.mark.parametrize(
    ("properties", "status", "message"),
    [
        ({"build": {"contextUri": "https://github.com/org/project.git#main:docker"}}, 501, "build contexts from git"),
        ({"build": {"contextUri": "nowhere"}}, 400, "'nowhere' is not an address"),
        ({"autoRebuild": "OnBaseImageUpdate"}, 501, "autoRebuild 'OnBaseImageUpdate'"),
        ({"image": None}, 400, "has no image"),
    ],
)
def test_an_environment_that_cannot_be_built_is_refused(
    service: Service, properties: dict[str, Any], status: int, message: str
) -> None:
    answer = service.submit("run1", environmentId=service.environment("odd", **properties))
    assert answer.status == status
    assert message in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "environment",
    [
        "azureml://registries/azureml/environments/AzureML-acpt-pytorch-2.2-cuda12.1/versions/7",
        "azureml://registries/azureml/environments/AzureML-ACPT-pytorch-2.2-cuda12.1/labels/latest",
        "azureml:AzureML-acpt-pytorch-2.2-cuda12.1:7",
        "azureml:AzureML-acpt-pytorch-2.2-cuda12.1@latest",
    ],
)
def test_a_curated_name_stands_for_the_image_that_was_named_for_it(service: Service, environment: str) -> None:
    images = {"AzureML-acpt-*:9": "wrong:1", "AzureML-acpt-*": "my-acpt:1", "*": "any:1"}
    object.__setattr__(service.services, "environments", CuratedImages(images))
    assert service.submit("run1", environmentId=environment).status == 201
    assert (service.runner.submitted[-1].image, service.runner.submitted[-1].build) == ("my-acpt:1", None)
    shown = service.call("GET", f"{IDENTITY.workspace_arm_id}/jobs/run1").json
    assert shown["properties"]["environmentId"] == environment


def test_a_curated_name_without_an_image_is_refused_with_the_remedy(service: Service) -> None:
    name = "azureml://registries/azureml/environments/sklearn-1.5/versions/3"
    answer = service.submit("run1", environmentId=name)
    assert answer.status == 501
    message = answer.json["error"]["message"]
    assert f"the curated environment '{name}' without an image" in message
    assert "--environment 'sklearn*=IMAGE'" in message
    assert "targets.local.environments" in message


def test_images_that_are_named_later_count_first_and_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "environments.json"
    first = CuratedImages({"A-*": "given:1", "B": "given:2"}, file)
    first.name("a-x*", "one:1")
    first.name("A-*", "later:1")
    again = CuratedImages({"A-*": "given:1", "B": "given:2"}, file)
    assert list(again.listed().items()) == [("A-*", "later:1"), ("a-x*", "one:1"), ("B", "given:2")]
    assert (again.image_of("a-xy", "3"), again.image_of("b", None), again.image_of("C", None)) == (
        "later:1",
        "given:2",
        None,
    )
    again.forget()
    assert CuratedImages({"A-*": "given:1"}, file).listed() == {"A-*": "given:1"}
    with pytest.raises(ValueError, match="a pattern and an image are needed"):
        again.name("A-*", " ")
