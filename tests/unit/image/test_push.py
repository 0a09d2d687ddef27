"""Is everything of a released image still in the registry?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ImageNotFound

from aml_train.core.events import Event, Progress
from aml_train.image.push import pull_image
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest, sha256_digest
from tests.unit.image.registry.fake_registry import FakeRegistry


def client(transport: FakeRegistry) -> Registry:
    return Registry("https://r.test", transport=transport, attempts=1)


def entry(content: bytes, **more: Any) -> dict[str, Any]:
    return {"digest": sha256_digest(content), "size": len(content), **more}


def image(*layers: bytes, config: bytes = b"{}", foreign: Sequence[bytes] = ()) -> Manifest:
    listed = [*(entry(one) for one in layers), *(entry(one, urls=["https://elsewhere.test/l"]) for one in foreign)]
    content = json.dumps({"config": entry(config), "layers": listed}).encode()
    return Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)


class _Engine:
    """An engine without the image, which a pull brings."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = messages
        self._pulled = False
        self.images = self.api = self

    def get(self, name: str) -> Any:
        if not self._pulled:
            raise ImageNotFound(name)
        return SimpleNamespace(id="sha256:1")

    def pull(self, _repository: str, **_options: Any) -> Iterator[dict[str, Any]]:
        yield from self._messages
        self._pulled = True


@pytest.mark.parametrize("sizes", [(), (30, 12)])
def test_a_pull_reports_what_is_downloaded_and_its_end(sizes: tuple[int, ...]) -> None:
    events: list[Event] = []
    messages = [
        {"id": f"{number}", "status": status, "progressDetail": {"current": current, "total": size}}
        for number, size in enumerate(sizes)
        for status, current in (("Downloading", size // 2), ("Extracting", 1))
    ]
    engine = _Engine({"status": "Pulling"}, *messages, {"status": "Digest"})
    pull_image(engine, "r/digits", "sha256:2", auth=None, listener=events.append)  # type: ignore[arg-type]
    reports = [event for event in events if isinstance(event, Progress)]
    assert bool(reports) == bool(sizes)
    if sizes:
        assert (reports[-1].done, reports[-1].total, reports[-1].label) == (42, 42, "pull r/digits@sha256:2")
