"""Documents that refer to an image, in registries with and without the interface of referrers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.image.records import RECORD_TYPE, store_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest
from aml_train.image.registry.referrers import (
    attach_document,
    fallback_tag,
    list_referrers,
    read_referrer,
)
from tests.unit.image.registry.fake_registry import FakeRegistry
from tests.unit.image.registry.test_client import RECORD

KIND = "application/vnd.example.paper+json"


def _image(server: FakeRegistry) -> tuple[Registry, Manifest]:
    registry = Registry("https://registry.test", transport=server)
    registry.put_manifest("r", "one", b'{"schemaVersion": 2}', OCI_MANIFEST)
    image = registry.get_manifest("r", "one")
    assert image is not None
    return registry, image


@pytest.fixture(params=[True, False], ids=["interface", "fall-back"])
def server(request: pytest.FixtureRequest) -> FakeRegistry:
    return FakeRegistry(referrers=request.param)


def test_a_document_is_found_by_the_digest_of_its_image(server: FakeRegistry) -> None:
    registry, image = _image(server)
    assert list_referrers(registry, "r", image.digest) == ()
    made = attach_document(
        registry, "r", image, artifact_type=KIND, content=b"paper", annotations={"org.example.name": "first"}
    )
    (found,) = list_referrers(registry, "r", image.digest)
    assert found == made
    assert read_referrer(registry, "r", found) == b"paper"
    content, media_type = server.manifests["r", found.digest]
    document = json.loads(content)
    assert document["annotations"] == {"org.example.name": "first"}
    assert media_type == document["mediaType"] == OCI_MANIFEST
    assert document["subject"] == {"mediaType": OCI_MANIFEST, "digest": image.digest, "size": len(image.content)}
    assert (("r", fallback_tag(image.digest)) in server.manifests) is not server.referrers


def test_the_record_of_tests_refers_to_its_image(server: FakeRegistry) -> None:
    registry, image = _image(server)
    store_record(registry, "r", RECORD.__class__(**{**vars(RECORD), "digest": image.digest}))
    (found,) = list_referrers(registry, "r", image.digest)
    assert found.artifact_type == RECORD_TYPE


def test_the_index_keeps_the_entries_of_other_clients() -> None:
    server = FakeRegistry()
    registry, image = _image(server)
    other: dict[str, Any] = {
        "mediaType": OCI_MANIFEST,
        "digest": "sha256:" + "1" * 64,
        "size": 7,
        "artifactType": "x",
    }
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [other]}
    registry.put_manifest("r", fallback_tag(image.digest), json.dumps(index).encode(), OCI_INDEX)
    attach_document(registry, "r", image, artifact_type=KIND, content=b"paper")
    kept = json.loads(server.manifests["r", fallback_tag(image.digest)][0])["manifests"]
    assert kept[0] == other
    assert [one["artifactType"] for one in kept] == ["x", KIND]


class _Rival(FakeRegistry):
    """Replaces the index after each of its first writes, as another client does that read before."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        response = super().send(request, *args, **options)
        if request.method == "PUT" and "/manifests/sha256-" in request.url and self.times:
            self.times -= 1
            tag = request.url.rpartition("/")[2]
            index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
            self.manifests["r", tag] = (json.dumps(index).encode(), OCI_INDEX)
        return response


def test_an_entry_that_another_client_lost_is_written_again() -> None:
    registry, image = _image(_Rival(3))
    made = attach_document(registry, "r", image, artifact_type=KIND, content=b"paper")
    assert list_referrers(registry, "r", image.digest) == (made,)


def test_a_referrer_that_is_gone_or_changed_is_refused() -> None:
    server = FakeRegistry()
    registry, image = _image(server)
    made = attach_document(registry, "r", image, artifact_type=KIND, content=b"paper")
    layer = json.loads(server.manifests["r", made.digest][0])["layers"][0]["digest"]
    server.blobs["r", layer] = b"other"
    with pytest.raises(ImageError, match="is damaged: its contents have another digest"):
        read_referrer(registry, "r", made)
    del server.manifests["r", made.digest]
    with pytest.raises(ImageError, match="is listed as a referrer, and is not in the registry"):
        read_referrer(registry, "r", made)
