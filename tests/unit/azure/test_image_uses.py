"""Who uses which image: every place of a workspace that can name one, and lists that cannot be read."""

from __future__ import annotations

import datetime
import types
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from aml_train.azure.image_uses import read_image_uses, reference_in, texts_in
from aml_train.azure.workspace import AzureRest
from aml_train.config.job.model import JobNode
from aml_train.core.errors import ServiceError
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.image.spec import Tested
from aml_train.jobs.spec import NodesImage
from tests.support.plain_answers import answered

HOST = "r.azurecr.io"
SINCE = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
BEFORE, AFTER = "2026-10-01T00:00:00Z", "2026-11-10T00:00:00Z"


def digest(letter: str) -> str:
    return f"sha256:{letter * 64}"


def image(letter: str) -> str:
    return f"{HOST}/octo/digits@{digest(letter)}"


def job(name: str, status: str, created: str | None, **properties: Any) -> dict[str, Any]:
    system = {} if created is None else {"systemData": {"createdAt": created}}
    return {"name": name, "properties": {"status": status, **properties}, **system}


class FakeRest:
    """A workspace that answers lists and single entries by their path; 404 for any other."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    def describe(self) -> Any:
        return answered({})

    def arm(self, path: str) -> str:
        return path

    def items(self, url: str, _what: str, *, params: Mapping[str, str], required: bool) -> Iterator[Any]:
        assert required
        assert url != "/jobs" or params["listViewType"] == "All"
        yield from map(answered, self.answers.get(url, ()))

    def read(self, url: str, _what: str, *, params: Mapping[str, str]) -> Any:
        assert params
        return answered(self.answers.get(url))

    def find_job(self, name: str) -> Any:
        return answered(self.answers.get(f"/jobs/{name}"))

    def call(self, _method: str, url: str, _what: str, use: Any, *, params: Mapping[str, str]) -> Any:
        assert params
        return use(types.SimpleNamespace(status_code=200 if url in self.answers else 501))


def uses(answers: Mapping[str, Any]) -> set[tuple[str | None, str]]:
    """Return digests, or tags, with their users."""
    rest = cast(AzureRest, FakeRest(answers))
    return {(one.digest or one.tag, one.by) for one in read_image_uses(rest, HOST, since=SINCE)}


@pytest.mark.parametrize(
    ("one", "by"),
    [
        (job("j", "Running", BEFORE, tags={Tag.DIGEST: digest("a")}), "the live job j"),
        (job("j", "Queued", BEFORE, environmentId="/x/environments/e/versions/1"), "the live job j"),
        (job("j", "NotResponding", BEFORE, tags={"any": digest("a")}), "the live job j"),
        (job("j", "Failed", AFTER, tags={Tag.DIGEST: digest("a")}), "the recent job j"),
        (job("j", "Completed", None, tags={Tag.DIGEST: digest("a")}), "the recent job j"),
        (job("j", "Completed", AFTER, jobs={"step": {"environmentId": image("a")}}), "the recent job j"),
        (job("j", "Completed", BEFORE, tags={Tag.DIGEST: digest("a")}), None),
    ],
)
def test_jobs(one: dict[str, Any], by: str | None) -> None:
    environment = {"/environments/e/versions/1": {"name": "1", "properties": {"image": image("a")}}}
    assert uses({"/jobs": [one], **environment}) == (set() if by is None else {(digest("a"), by)})


@pytest.mark.parametrize("listed", [True, False])
def test_a_model_keeps_the_image_of_the_job_that_made_it(listed: bool) -> None:
    """The job is old, and AzureML may have archived it."""
    old = job("j", "Completed", BEFORE, tags={Tag.DIGEST: digest("a")})
    version = {"name": "7", "properties": {"jobName": "j"}}
    found = uses(
        {
            "/models": [{"name": "digits"}],
            "/models/digits/versions": [version],
            "/jobs": [old] if listed else [],
            "/jobs/j": old,
        }
    )
    assert found == {(digest("a"), "the model digits:7")}


def test_all_images_of_a_pipeline_are_used() -> None:
    other = Tested(
        reference=ImageRef.parse(image("b")),
        digest=digest("b"),
        address="a",
        how="found",
        record=None,
        compressed_bytes=1,
    )
    tag = NodesImage(name="prep", nodes=(JobNode(name="prep", kind="command"),)).tag(other)
    tags = {Tag.DIGEST: digest("a"), f"{Tag.IMAGES}prep": tag}
    assert uses({"/jobs": [job("j", "Completed", AFTER, tags=tags)]}) == {
        (digest("a"), "the recent job j"),
        (digest("b"), "the recent job j"),
    }


def test_models_environments_deployments_and_schedules() -> None:
    found = uses(
        {
            "/models": [{"name": "m"}],
            "/models/m/versions": [{"name": "1", "properties": {"properties": {"x": f"made in {digest('a')}"}}}],
            "/environments": [{"name": "e"}, {"name": "CliV2AnonymousEnvironment"}, {"name": "AzureML-sklearn"}],
            "/environments/e/versions": [
                {"name": "1", "properties": {"image": image("b")}},
                {"name": "2", "properties": {"image": f"{HOST.upper()}/octo/digits:v1"}},
                {"name": "3", "properties": {"image": image("c"), "isAnonymous": True}},
                {"name": "4", "properties": {"image": f"mcr.microsoft.com/x@{digest('d')}"}},
            ],
            "/onlineEndpoints": [{"name": "o"}],
            "/onlineEndpoints/o/deployments": [
                {"name": "blue", "properties": {"environmentId": "/w/environments/e/versions/3"}}
            ],
            "/batchEndpoints": [{"name": "b"}],
            "/batchEndpoints/b/deployments": [{"name": "green", "properties": {"x": [{"y": image("f")}]}}],
            "/schedules": [{"name": "s", "properties": {"action": {"jobDefinition": {"image": image("9")}}}}],
        }
    )
    assert found == {
        (digest("a"), "the model m:1"),
        (digest("b"), "the environment e:1"),
        ("v1", "the environment e:2"),
        (digest("d"), "the environment e:4"),
        (digest("c"), "the deployment blue of the endpoint o"),
        (digest("f"), "the deployment green of the endpoint b"),
        (digest("9"), "the schedule s"),
    }


def test_an_unknown_status_is_an_error() -> None:
    with pytest.raises(ServiceError, match="Sleeping"):
        uses({"/jobs": [job("j", "Sleeping", AFTER)]})


def test_texts_and_references() -> None:
    assert sorted(texts_in({"a": ["b", {"c": 1, "d": None}], "e": "f"})) == ["a", "b", "c", "d", "e", "f"]
    assert reference_in(f"{HOST}/x", "other.azurecr.io") is None
    assert reference_in(f"{HOST}/", HOST) is None
    found = reference_in(image("a"), HOST)
    assert found is not None
    assert (found.repository, found.digest) == ("octo/digits", digest("a"))
