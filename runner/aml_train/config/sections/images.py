"""``images:``: further images of a pipeline job, each for the nodes that it names.

Each is built, tested and recorded as ``image`` is, which is the image of all other nodes and of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aml_train.config.section import CheckedTree, keys_of
from aml_train.config.sections.image import ImageConfig, image_config
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.config.sections.tests import TESTS, TestsConfig, tests_config
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, Mark, find
from aml_train.config.yaml.shapes import Text
from aml_train.config.yaml.structures import Items, Key, Record, Table


def check_builder(checked: CheckedTree, image: ImageConfig | None, tests: TestsConfig | None) -> None:
    """Report the keys that the builder of *image* cannot obey."""
    if image is None or not image.builder.is_service:
        return
    excluded = (
        (bool(image.secrets), ("image", "secrets"), "ACR Tasks would take a secret as a part of the request"),
        (
            tests is not None and tests.limits.gpus == "all",
            ("tests", "gpus"),
            "ACR Tasks tests on machines without GPUs",
        ),
    )
    for given, keys, why in excluded:
        if given:
            what = f"`{'.'.join(keys)}` and the builder `acr` exclude each other"
            checked.fault(what, *keys, why=why, remedy="use the builder `local` or `remote`, or delete the key")


_MOST: Final = 8
"""Images of one pipeline: each has a tag of the job, and a job has at most 50."""

_OF_IMAGE: Final = re.compile(r"`(image|tests)(?=[.`])")


@dataclass(frozen=True, kw_only=True)
class NodeImage:
    """One of ``images``: its name, the image, its tests and its nodes."""

    name: str
    image: ImageConfig
    tests: TestsConfig | None
    nodes: tuple[str, ...]


IMAGES: Final = Table(
    noun="a mapping of names to images",
    key=Text(noun="lower-case letters, digits and `-`", pattern=r"[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?"),
    value=Record(
        noun="a mapping with `base` and `nodes`",
        one_of=("base", "dockerfile"),
        hints={"builder": "it is a key of `image`, and holds for all images"},
        keys={
            "nodes": Key(
                Items(item=Text(noun="a node's name"), noun="a list of nodes", least=1),
                "Nodes that run in this image.",
                required=True,
            ),
            **{name: one for name, one in keys_of(ImageConfig).items() if name not in ("builder", "nodes")},
            "tests": Key(TESTS, "Tests that run inside this image, with the keys of `tests`."),
        },
    ),
    most=_MOST,
)


def node_images(checked: CheckedTree, builder: BuilderConfig) -> tuple[NodeImage, ...]:
    """Make ``images`` and check their files.

    Args:
        checked: the file.
        builder: that of ``image``, which builds all of them.
    """
    found = []
    for name, values, node in _each(checked):
        part = _part(checked, name, values, node)
        image, tests = image_config(part), tests_config(part)
        if image is not None:
            image = replace(image, builder=builder)
            check_builder(part, image, tests)
        if image is not None:
            found.append(NodeImage(name=name, image=image, tests=tests, nodes=tuple(values.get("nodes", ()))))
    return tuple(found)


def _each(checked: CheckedTree) -> Iterator[tuple[str, Mapping[str, Any], MapNode]]:
    for name, values in checked.section("images").items():
        node = find(checked.tree, "images", name)
        if isinstance(node, MapNode) and isinstance(values, dict):
            yield name, values, node


def _part(checked: CheckedTree, name: str, values: Mapping[str, Any], node: MapNode) -> CheckedTree:
    """Return one of ``images`` as the ``image`` and ``tests`` of a file."""
    mark = checked.place("images", name)
    image = replace(node, entries={key: entry for key, entry in node.entries.items() if key != "tests"})
    entries = {"image": Entry(mark=mark, node=image)}
    if "tests" in node.entries:
        entries["tests"] = node.entries["tests"]
    return CheckedTree(
        tree=MapNode(mark=node.mark, entries=entries),
        values={
            "image": {key: value for key, value in values.items() if key != "tests"},
            "tests": values.get("tests"),
        },
        directory=checked.directory,
        faults=_Renamed(name=name, whole=checked.faults),
    )


@dataclass(kw_only=True)
class _Renamed(Faults):
    """Adds the faults of one of ``images`` to those of the whole file, by its name."""

    name: str
    whole: Faults

    @property
    def full(self) -> bool:
        return self.whole.full

    def add(self, mark: Mark, what: str, *, why: str = "", remedy: str = "") -> None:
        self.whole.add(mark, self._renamed(what), why=self._renamed(why), remedy=self._renamed(remedy))

    def remark(self, mark: Mark, text: str) -> None:
        self.whole.remark(mark, self._renamed(text))

    def __len__(self) -> int:
        return len(self.whole)

    def _renamed(self, text: str) -> str:
        inner = {"image": f"images.{self.name}", "tests": f"images.{self.name}.tests"}
        return _OF_IMAGE.sub(lambda match: f"`{inner[match[1]]}", text)
