from __future__ import annotations

import json
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, Notice
from aml_train.image.disk import (
    HEADROOM,
    Need,
    Room,
    judge_room,
    missing,
)
from aml_train.image.registry.manifest import OCI_INDEX, Manifest, sha256_digest

SIZES, LAYERS = (100, 20, 3), ("a", "b", "c")
NGC = Need(compressed=9_900_000_000, layers=50, of=60)


@pytest.mark.parametrize(
    ("chains", "compressed", "layers"),
    [
        ([], 123, 3),
        ([["a", "b", "c", "d"]], 0, 0),
        ([["a"], ["a", "b", "x"], []], 3, 1),
        ([["b", "c"], ["x", "b", "c"]], 123, 3),
    ],
    ids=["nothing there", "all there", "the longest beginning counts", "a layer counts with what is below only"],
)
def test_what_is_missing(chains: list[list[str]], compressed: int, layers: int) -> None:
    assert missing(SIZES, LAYERS, chains) == Need(compressed=compressed, layers=layers, of=3)


def _judge(need: Need, free: int | None) -> list[tuple[str, str]]:
    received: list[Event] = []
    judge_room(
        "nvcr.io/nvidia/pytorch:24.10-py3",
        need,
        Room(path="/var/lib/docker", free=free, how="it is said"),
        received.append,
    )
    return [(event.level, event.text) for event in received if isinstance(event, Notice)]


def test_too_little_says_by_how_much_and_the_ways_out() -> None:
    with pytest.raises(
        ImageError, match=r"24\.10-py3 has 50 layers of 60 that the engine lacks: 9\.90 GB to pull"
    ) as caught:
        _judge(NGC, 14_000_000_000)
    assert (
        "about 21.78 GB unpacked, 31.68 GB while it is pulled; 14.00 GB are free under /var/lib/docker (it is said), 17.68 GB too little"
        in str(caught.value)
    )
    assert "docker builder prune" in (caught.value.hint or "")
    assert caught.value.exit_code == 3


def test_enough_tight_and_unknown() -> None:
    assert _judge(NGC, NGC.peak + HEADROOM) == []
    ((level, text),) = _judge(NGC, NGC.peak)
    assert (level, text.endswith("31.68 GB are free under /var/lib/docker: it will be tight.")) == ("warning", True)
    ((level, text),) = _judge(NGC, None)
    assert (level, text.endswith("Whether that fits under /var/lib/docker cannot be known: it is said.")) == (
        "info",
        True,
    )


def _index(*platforms: dict[str, Any]) -> Manifest:
    entries = [{"digest": f"sha256:{number:064}", "size": 1, "platform": one} for number, one in enumerate(platforms)]
    content = json.dumps({"manifests": entries}).encode()
    return Manifest(digest=sha256_digest(content), media_type=OCI_INDEX, content=content)


def test_the_manifest_of_a_platform() -> None:
    index = _index(
        {"os": "unknown", "architecture": "unknown"}, {"os": "linux", "architecture": "arm64", "variant": "v8"}
    )
    assert index.child_for("linux/arm64") == f"sha256:{1:064}"
    with pytest.raises(ImageError, match="has no image for linux/amd64"):
        index.child_for("linux/amd64")
