"""The source of a job: files, trees, and names in faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aml_train.config.yaml.nodes import Faults, MapNode, Mark, ScalarNode
from aml_train.config.yaml.source import read_text
from aml_train.config.yaml.tree import parse


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """A job's tree, before it is checked.

    Attributes:
        tree: what was read.
        file: the file that holds it.
        directory: the folder that its relative paths start from.
        prefix: the dotted name of the job in its file: ``job`` if it is inline, else empty.
    """

    tree: MapNode
    file: Path
    directory: Path
    prefix: str = ""

    def name(self, name: str) -> str:
        """Return the dotted name of a key of the job in its file."""
        return f"{self.prefix}.{name}" if self.prefix else name


def read_tree(path: Path, mark: Mark, file: str, faults: Faults) -> MapNode | None:
    """Read a YAML file whose top is a mapping; None after a fault.

    Args:
        path: the file.
        mark: the place that names it, for a file that cannot be read.
        file: its name in faults.
        faults: takes the faults.
    """
    text = read_text(path, mark, file, faults)
    if text is None:
        return None
    before = len(faults)
    node = parse(text, file, faults)
    if node is None and len(faults) > before:
        return None
    top = Mark(file=file, line=1)
    if node is None or (isinstance(node, ScalarNode) and node.kind == "null"):
        faults.add(top, "the file is empty")
        return None
    if not isinstance(node, MapNode):
        faults.add(top, "the file must be a mapping of keys to values", remedy="write it as `key: value` lines")
        return None
    return MapNode(mark=top, entries=node.entries)


def name_of(path: Path, directory: Path) -> str:
    """Return a path for messages: relative to *directory* if it is inside."""
    absolute = Path(directory, path)
    return str(absolute.relative_to(directory)) if absolute.is_relative_to(directory) else str(path)
