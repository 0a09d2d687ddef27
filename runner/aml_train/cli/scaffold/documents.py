"""What kind of thing a YAML file is: a job of AzureML, an environment, a run configuration of SDK v1, a workflow. Pure.

The schemas' names are those of https://azuremlschemas.azureedge.net; run configurations are those that azureml-core writes
(`RunConfiguration.save`), in files ``*.runconfig`` or in ``.azureml``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from aml_train.config import ListNode, MapNode, Mark, Node, ScalarNode, find, place

Kind = Literal["command", "other job", "component", "environment", "runconfig", "conda", "workflow"]

_OTHER_JOBS = ("pipeline", "sweep", "spark", "automl", "parallel", "import", "finetuning")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A YAML file that was recognised."""

    path: str
    kind: Kind
    tree: MapNode
    text: str

    def node(self, *keys: str) -> Node | None:
        """Return what stands under *keys*, or None."""
        return find(self.tree, *keys)

    def said(self, *keys: str) -> str:
        """Return the text under *keys*; empty where there is none, or something else than a scalar."""
        node = self.node(*keys)
        return node.text if isinstance(node, ScalarNode) and node.kind != "null" else ""

    def mark(self, *keys: str) -> Mark:
        """Return the place of the last of *keys* that exists; the first line without any."""
        mark = place(self.tree, *keys)
        return Mark(file=self.path, line=mark.line or 1)

    def items(self, *keys: str) -> list[tuple[Mark, str]]:
        """Return the scalars of the list under *keys*, each with its place."""
        node = self.node(*keys)
        if not isinstance(node, ListNode):
            return []
        return [(item.mark, item.text) for item in node.items if isinstance(item, ScalarNode)]

    @property
    def folder(self) -> str:
        """The folder that its relative paths start from."""
        return self.path.rpartition("/")[0]


def kind_of(path: str, tree: MapNode) -> Kind | None:
    """Return what a YAML file is, or None for what says nothing of training."""
    keys = set(tree.entries)
    schema = _scalar(tree, "$schema").rpartition("/")[2].lower()
    type_ = _scalar(tree, "type").lower()
    if "component" in schema or type_.endswith("_component"):
        return "component"
    if schema.startswith("environment") or ({"name", "image"} <= keys and not keys & {"command", "jobs", "services"}):
        return "environment"
    if schema.startswith("commandjob") or (
        "command" in keys and (type_ == "command" or keys & {"compute", "environment", "experiment_name"})
    ):
        # Version 1 has `command`, too, beside `framework` or `target`.
        return "runconfig" if _is_runconfig(path, keys) else "command"
    if type_ in _OTHER_JOBS or (schema.endswith("job.schema.json") and schema):
        return "other job"
    if _is_runconfig(path, keys):
        return "runconfig"
    if isinstance(find(tree, "dependencies"), ListNode) and keys <= {
        "name",
        "channels",
        "dependencies",
        "variables",
        "prefix",
    }:
        return "conda"
    return None


def _is_runconfig(path: str, keys: set[str]) -> bool:
    named = path.endswith(".runconfig") or path.startswith((".azureml/", "aml_config/"))
    return (named and bool(keys & {"script", "command"})) or {"script", "framework", "target"} <= keys


def looks_like_azureml(path: str, text: str) -> bool:
    """Tell whether a file that cannot be read as YAML was meant for AzureML."""
    return (
        "azuremlschemas" in text
        or path.endswith(".runconfig")
        or (
            re.search(r"^command:", text, re.MULTILINE) is not None
            and re.search(r"^(compute|environment|experiment_name):", text, re.MULTILINE) is not None
        )
    )


def _scalar(tree: MapNode, key: str) -> str:
    node = find(tree, key)
    return node.text if isinstance(node, ScalarNode) else ""
