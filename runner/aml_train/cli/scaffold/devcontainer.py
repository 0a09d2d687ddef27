"""The text of devcontainer.json: a first one, and the parts kept up to date.

Two values are ours: ``image``, and ``customizations.aml-train``, which says what the image was found by. All else belongs to the user,
as do comments and order. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aml_train.core.errors import Fault, InvalidError
from aml_train.core.jsonc import JsoncError, change_jsonc, parse_jsonc

DEVCONTAINER: Final = Path(".devcontainer/devcontainer.json")
EXTENSIONS: Final = ("ms-python.python", "ms-toolsai.vscode-ai")
"""Python, and Azure Machine Learning."""

_OURS: Final = "aml-train"
_INTRODUCTION: Final = """\
// The image in which the tests of this repository passed, by its digest.
// `aml-train devcontainer` keeps `image` and `customizations.aml-train` up to date; everything else is yours.
"""
_OTHER_WAYS: Final = ("build", "dockerFile", "dockerComposeFile")
"""Members by which a devcontainer.json names something else than an image (https://containers.dev/implementors/json_reference)."""


@dataclass(frozen=True, kw_only=True)
class FirstContainer:
    """The values of a new devcontainer.json besides its image.

    Attributes:
        name: the container's name.
        user: the user that tools in the container run as.
        features: references of features, which are installed on top of the image.
        mounts: mounts in the form of ``docker run --mount``.
        extensions: ids of VS Code's extensions.
        gpu: whether the container gets GPUs, where the machine has some.
        shm_size: size of /dev/shm, as in ``docker run --shm-size``; None for Docker's default.
    """

    name: str
    user: str
    features: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    extensions: tuple[str, ...] = EXTENSIONS
    gpu: bool = False
    shm_size: str | None = None


def first_devcontainer(image: str, origin: Mapping[str, str], first: FirstContainer) -> str:
    """Return the text of a new devcontainer.json."""
    document: dict[str, Any] = {
        "name": first.name,
        "image": image,
        "features": {feature: {} for feature in first.features},
        "mounts": list(first.mounts),
        "remoteUser": first.user,
        **({"runArgs": [f"--shm-size={first.shm_size}"]} if first.shm_size else {}),
        **({"hostRequirements": {"gpu": "optional"}} if first.gpu else {}),
        "customizations": {"vscode": {"extensions": list(first.extensions)}, _OURS: dict(origin)},
    }
    return f"{_INTRODUCTION}{json.dumps(document, indent=2, ensure_ascii=False)}\n"


def image_of(text: str, where: str) -> str | None:
    """Return the image that a devcontainer.json names; None for none.

    Raises:
        InvalidError: it is no JSON with comments, or names something else than an image.
    """
    document = _read(text, where)
    for other in _OTHER_WAYS:
        if other in document:
            what = f"`{other}` builds the container"
            remedy = f"replace `{other}` by `image`, and run aml-train devcontainer again"
            raise InvalidError(
                [Fault(where=where, what=what, why="the tested image is used as it is", remedy=remedy)]
            )
    image = document.get("image")
    if image is not None and not isinstance(image, str):
        raise InvalidError([Fault(where=where, what="`image` is no text", remedy="delete it")])
    return image


def updated_devcontainer(text: str, image: str, origin: Mapping[str, str], where: str) -> str:
    """Return a devcontainer.json with our two values as they are now.

    Raises:
        InvalidError: as :func:`image_of` does.
    """
    image_of(text, where)
    try:
        return change_jsonc(text, {("image",): image, ("customizations", _OURS): dict(origin)})
    except JsoncError as error:
        raise _no_json(error, where) from error


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        document = parse_jsonc(text)
    except JsoncError as error:
        raise _no_json(error, where) from error
    if not isinstance(document, dict):
        raise InvalidError([Fault(where=where, what="it is no object", remedy="delete the file, or write one")])
    return document


def _no_json(error: JsoncError, where: str) -> InvalidError:
    what = f"it cannot be changed: {error}"
    return InvalidError([Fault(where=where, what=what, remedy="correct it, or delete the file for a new one")])
