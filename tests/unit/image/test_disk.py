from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import ImageNotFound

from aml_train.core.events import Event, Notice
from aml_train.image import disk
from aml_train.image.disk import Room, check_pull, room_here
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest, sha256_digest

DIGEST = "sha256:" + "a" * 64
LARGE = {"digest": DIGEST, "size": 9_900_000_000}


def _manifest(media_type: str, **document: Any) -> Manifest:
    content = json.dumps(document).encode()
    return Manifest(digest=sha256_digest(content), media_type=media_type, content=content)


IMAGE = _manifest(OCI_MANIFEST, config={"digest": DIGEST, "size": 1}, layers=[LARGE])
INDEX = _manifest(OCI_INDEX, manifests=[{**LARGE, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}}])


def _engine(*, has: bool) -> Any:
    def get(_name: str) -> None:
        if not has:
            raise ImageNotFound("no")

    return SimpleNamespace(
        images=SimpleNamespace(get=get), api=SimpleNamespace(base_url="http+docker://localhost"), info=dict
    )


@pytest.mark.parametrize(
    ("manifest", "has", "free", "warned"),
    [
        (IMAGE, False, 14_000_000_000, True),
        (INDEX, False, 14_000_000_000, True),
        (IMAGE, True, 14_000_000_000, False),
        (IMAGE, False, 40_000_000_000, False),
        (IMAGE, False, None, False),
    ],
    ids=["too large", "of an index", "it is there", "enough", "unknown"],
)
def test_an_image_that_may_not_fit_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, manifest: Manifest, has: bool, free: int | None, warned: bool
) -> None:
    room = None if free is None else Room(path="/var/lib/docker", free=free)
    monkeypatch.setattr(disk, "room_here", lambda *_args: room)
    registry = cast("Any", SimpleNamespace(host="r.test", get_manifest=lambda *_args: IMAGE))
    events: list[Event] = []
    check_pull(registry, "x", manifest, "linux/amd64", engine=_engine(has=has), listener=events.append)
    texts = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert bool(texts) == warned
    if warned:
        assert (
            "has 9.90 GB to pull, 31.68 GB while it is unpacked, and 14.00 GB are free under /var/lib/docker"
            in texts[0]
        )


@pytest.mark.parametrize(
    ("environ", "info"),
    [
        ({"DOCKER_HOST": "ssh://a"}, {}),
        ({}, {"OperatingSystem": "Docker Desktop"}),
        ({}, {"DockerRootDir": "/nowhere/at/all"}),
    ],
)
def test_the_room_of_an_engine_elsewhere_is_not_known(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], info: dict[str, Any]
) -> None:
    monkeypatch.setattr(disk, "in_container", lambda: False)
    assert room_here(cast("Any", SimpleNamespace(info=lambda: info)), environ) is None


def test_the_room_of_a_local_engine_is_the_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = cast("Any", SimpleNamespace(info=lambda: {"DockerRootDir": "/nowhere/at/all"}))
    monkeypatch.setattr(disk, "in_container", lambda: True)
    found = room_here(engine, {})
    assert found is not None
    assert found.path == "/nowhere/at/all"
    assert found.free > 0
