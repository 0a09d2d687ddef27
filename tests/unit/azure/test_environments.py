"""The image of an environment, from the answers that AzureML gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from aml_train.azure.environments import find_environment_image
from aml_train.azure.names import WorkspaceId
from aml_train.core.errors import InvalidError
from tests.support.plain_answers import answered

#: The answer of ``Environment.get_image_details``, as azureml-core's ``DockerImageDetails`` reads it.
BUILT = {
    "imageExistsInRegistry": True,
    "dockerImage": {
        "name": "azureml/azureml_5f",
        "registry": {"address": "ours.azurecr.io", "username": "u", "password": "secret"},
    },
}


class FakeRest:
    """A workspace with given answers by address."""

    workspace = WorkspaceId(subscription_id="s", resource_group="g", name="w")

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    def arm(self, path: str) -> str:
        return path

    def environments(self, path: str) -> str:
        return f"/v1{path.removeprefix('/environments')}"

    def read(self, url: str, what: str, *, params: Mapping[str, str] | None = None) -> Any:
        del what, params
        return answered(self.answers[url]) if url in self.answers else None


def find(answers: Mapping[str, Any], version: str | None = "3") -> tuple[str, str]:
    return find_environment_image(cast("Any", FakeRest(answers)), "sklearn", version)


def test_an_environment_of_an_image_names_it() -> None:
    assert find({"/environments/sklearn/versions/3": {"properties": {"image": "r.io/a:1"}}}) == ("3", "r.io/a:1")


def test_the_newest_version_is_found() -> None:
    answers = {
        "/environments/sklearn": {"properties": {"latestVersion": "7"}},
        "/environments/sklearn/versions/7": {"properties": {"image": "r.io/a:7"}},
    }
    assert find(answers, None) == ("7", "r.io/a:7")


@pytest.mark.parametrize(
    "properties", [{"image": "base", "condaFile": "dependencies: []"}, {"build": {"contextUri": "https://x"}}]
)
def test_an_image_that_azureml_builds_is_asked_for(properties: Mapping[str, Any]) -> None:
    address = {"/environments/sklearn/versions/3": {"properties": properties}}
    image = "/v1/sklearn/versions/3/image"
    assert find({**address, image: BUILT}) == ("3", "ours.azurecr.io/azureml/azureml_5f")
    for answer in ({}, {image: {**BUILT, "imageExistsInRegistry": False}}):
        with pytest.raises(InvalidError, match="has not built the image of the environment sklearn:3") as caught:
            find({**address, **answer})
        assert (caught.value.hint or "").startswith("Run a job in it")


def test_an_unknown_environment() -> None:
    for version in ("3", None):
        with pytest.raises(InvalidError, match=r"Looking for the environment sklearn.*: the workspace w has none"):
            find({}, version)
