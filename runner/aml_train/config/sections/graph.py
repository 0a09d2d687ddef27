"""Keys of aml-train.yml that concern a pipeline's nodes or a sweep's trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aml_train.config.job.model import Job, JobNode
from aml_train.config.section import CheckedTree
from aml_train.config.yaml.nodes import shown
from aml_train.config.yaml.shapes import nearest

#: Sections that change a command job's own command.
_OF_COMMANDS: Final = {
    "setup": "write the commands into the nodes' own, or into `image.run`",
    "data": "declare the data as inputs of the job",
}


def check_graph(checked: CheckedTree, job: Job) -> None:
    """Check the keys that name nodes, and those that a pipeline or sweep cannot have."""
    if job.kind == "command":
        _check_command(checked)
        return
    for key, remedy in _OF_COMMANDS.items():
        if checked.has(key):
            checked.fault(f"`{key}` belongs to command jobs, and this is a {job.kind} job", key, remedy=remedy)
    names = [node.name for node in job.nodes]
    if checked.has("images"):
        _check_images(checked, job)
    _check_image(checked, job)
    for index, name in enumerate(_names(checked, "watch", "allow-failed")):
        if name not in names:
            _unknown(checked, name, names, "watch", "allow-failed", label=f"watch.allow-failed.{index}")
    node = checked.section("model").get("node")
    if isinstance(node, str) and node not in names:
        _unknown(checked, node, names, "model", "node", label="model.node")
    if job.kind == "pipeline" and checked.section("model").get("path") and node is None:
        remedy = "name the node that writes it: `model.node`"
        checked.fault("`model.path` is a path of a node's run, and no node is named", "model", "path", remedy=remedy)


def _check_command(checked: CheckedTree) -> None:
    for keys in (("image", "nodes"), ("images",), ("watch", "allow-failed"), ("model", "node")):
        if checked.has(*keys):
            checked.fault(f"`{'.'.join(keys)}` belongs to pipeline jobs", *keys, remedy="delete the key")


def _check_images(checked: CheckedTree, job: Job) -> None:
    """Check the nodes of ``images``: each in one image, and the model's in ``image``."""
    if job.kind == "sweep":
        checked.fault("`images` belongs to pipeline jobs", "images", remedy="delete the key")
        return
    if not checked.has("image"):
        remedy = "call the image of the model's nodes `image`"
        checked.fault("`images` needs `image`", "images", why="the lineage of a model names that", remedy=remedy)
    of = _names(checked, "image", "nodes")
    seen = dict.fromkeys(of, "image.nodes")
    if checked.section("image").get("nodes") == "all":
        remedy = "delete the key, or name the nodes of `image`"
        checked.fault("`image.nodes: all` leaves no node for `images`", "image", "nodes", remedy=remedy)
    for name, values in checked.section("images").items():
        keys = ("images", name, "nodes")
        for index, node in enumerate(values.get("nodes", ()) if isinstance(values, dict) else ()):
            _check_named(checked, job, node, *keys, label=f"images.{name}.nodes.{index}")
            if node in seen:
                what = f"the node `{shown(node)}` is in `images.{name}` and in `{seen[node]}`"
                checked.fault(what, *keys, remedy="name it once")
            seen.setdefault(node, f"images.{name}")
    _check_model(checked, job, seen)


def _check_model(checked: CheckedTree, job: Job, seen: Mapping[str, str]) -> None:
    """Check that the node of the model runs in ``image``, which its lineage names."""
    if not checked.has("model"):
        return
    node = checked.section("model").get("node")
    if node is None and job.kind == "pipeline":
        remedy = "name the node that writes it: `model.node`"
        checked.fault(
            "no node is named that writes the model", "model", why="there are several images", remedy=remedy
        )
    elif (place := seen.get(str(node), "image.nodes")) != "image.nodes":
        remedy = f"exchange `image` and `{place}`"
        checked.fault(f"the node of the model, `{node}`, does not run in `image`", "model", "node", remedy=remedy)


def _check_image(checked: CheckedTree, job: Job) -> None:
    """Check which nodes run in the image: one at least, and none that has no other."""
    if not checked.has("image"):
        return
    given = checked.section("image").get("nodes")
    if job.kind == "sweep":
        if given is not None:
            checked.fault("`image.nodes` belongs to pipeline jobs", "image", "nodes", remedy="delete the key")
        return
    for index, name in enumerate(given if isinstance(given, list) else ()):
        _check_named(checked, job, name, "image", "nodes", label=f"image.nodes.{index}")
    others = checked.section("images").values()
    elsewhere = {name for one in others if isinstance(one, dict) for name in one.get("nodes", ())}
    chosen = nodes_in_image(job.nodes, given, elsewhere)
    if job.nodes and not chosen:
        remedy = "name the nodes that run in it, such as `image: {nodes: [train]}`, or `nodes: all`"
        checked.fault(
            "no node of the pipeline runs in the image", "image", why="each names its environment", remedy=remedy
        )
    names_in_image = {node.name for node in chosen} | elsewhere
    for node in job.nodes:
        if node.place and node.environment is None and node.name not in names_in_image:
            what = f"the node `{node.name}` has no environment, and `image.nodes` does not name it"
            checked.fault(what, "image", "nodes", remedy="name it there, or give it an environment")


def _check_named(checked: CheckedTree, job: Job, name: str, *keys: str, label: str) -> None:
    """Check that a node that an image names is there, and can run in it."""
    found = next((node for node in job.nodes if node.name == name), None)
    if found is None:
        _unknown(checked, name, [node.name for node in job.nodes], *keys, label=label)
    elif not found.place:
        why = f"it is {found.component}, which has its own environment" if found.component else "it is not checked"
        checked.fault(f"the node `{name}` cannot run in the image", *keys, why=why)


def nodes_in_image(nodes: Sequence[JobNode], given: object, elsewhere: Collection[str] = ()) -> tuple[JobNode, ...]:
    """Return the nodes that run in the image.

    Args:
        nodes: those of the job.
        given: ``image.nodes``: names, ``all``, or None for those without an environment.
        elsewhere: nodes of other images.
    """
    able = tuple(node for node in nodes if node.place)
    if given == "all":
        return able
    if given is None:
        # A sweep job has one trial, whose environment is replaced as a command job's is.
        bare = (node for node in able if node.environment is None or not node.name)
        return tuple(node for node in bare if node.name not in elsewhere)
    names = given if isinstance(given, list | tuple) else ()
    return tuple(node for node in able if node.name in names)


def _names(checked: CheckedTree, *keys: str) -> list[str]:
    found = checked.section(keys[0]).get(keys[1])
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _unknown(checked: CheckedTree, name: str, names: Sequence[str], *keys: str, label: str) -> None:
    near = nearest(name, tuple(names))
    remedy = f"did you mean `{near}`?" if near else f"known are {', '.join(f'`{one}`' for one in names[:20])}"
    checked.fault(f"`{label}` names `{shown(name)}`, which is no node of the pipeline", *keys, remedy=remedy)
