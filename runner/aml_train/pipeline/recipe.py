"""Recipes: folders with a training's job, code and evidence.

``training.json`` has the job's document and the evidence of the original training, ``code/`` its code snapshot. The image stays
in a registry, by its digest, and data are named by their versions: both are copied by the tools that copy such things.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from aml_train.core.answers import Answer, UndecodableError, check_format, decode
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.references import ImageRef
from aml_train.core.tags import TAG_SOURCE
from aml_train.jobs import ModelView, version_of
from aml_train.models import StoredFile, Training

FILE: Final = "training.json"
CODE: Final = "code"
_FORMAT: Final = 1
_MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training to repeat.

    Attributes:
        model: name and version.
        source: the model's place in the outputs of a job: ``azureml://jobs/JOB/outputs/…``.
        image: the image by its digest; None if the job's environment names none.
        document: the command job, in the grammar of the CLI v2, without code and image.
        original: the evidence of the original training.
        folder: has the code, in ``code``; None for no folder yet.
    """

    model: str
    source: str
    image: str | None
    document: Mapping[str, Any]
    original: Training
    folder: Path | None = None

    @property
    def code(self) -> Path | None:
        """The folder of the code snapshot; None if the job ran none."""
        code = self.folder / CODE if self.folder is not None else None
        return code if code is not None and code.is_dir() else None

    @property
    def data(self) -> dict[str, str]:
        """The data that it reads, by input."""
        given = self.document.get("inputs") or {}
        paths = {name: one["path"] for name, one in given.items() if isinstance(one, dict) and "path" in one}
        return {name: version_of(str(path)) for name, path in paths.items()}

    def view(self) -> ModelView:
        """Return the model as far as its place is concerned."""
        name, _, version = self.model.partition(":")
        job = self.original.job
        return ModelView(name=name, version=version, path=self.source, tags={TAG_SOURCE: self.source}, job=job)


def portable(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's document with names that any workspace may have. Pure."""
    kept = dict(document)
    for key in {"inputs", "outputs"} & kept.keys():
        kept[key] = {name: _short(one) if isinstance(one, dict) else one for name, one in kept[key].items()}
    if "compute" in kept:
        kept["compute"] = f"azureml:{str(kept['compute']).rpartition('/')[2]}"
    return kept


def _short(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(entry)
    if isinstance(path := found.get("path"), str):
        short = version_of(path)
        found["path"] = short if "://" in short or short.startswith("azureml:") else f"azureml:{short}"
    return found


def write_recipe(recipe: Recipe, folder: Path, code: Iterable[StoredFile] | None) -> None:
    """Write a recipe into a new or empty folder.

    ``training.json`` is written last: a folder without it is incomplete.

    Raises:
        InvalidError: the folder has files.
        ServiceError: the code cannot be read, or a path in it leads elsewhere.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InvalidError(f"{folder} is not empty.", hint="Name a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for file in code or ():
        parts = PurePosixPath(file.path).parts
        if not parts or ".." in parts or PurePosixPath(file.path).is_absolute():
            raise ServiceError(f"The code snapshot has a file at {file.path!r}, which is no path below a folder.")
        path = folder.joinpath(CODE, *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as output:
            output.writelines(file.read())
    content = {
        "format": _FORMAT,
        "model": recipe.model,
        "source": recipe.source,
        "image": recipe.image,
        "job": dict(recipe.document),
        "original": {name: _plain(value) for name, value in vars(recipe.original).items()},
    }
    (folder / FILE).write_text(
        json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8"
    )


def _plain(value: Any) -> Any:
    """Return a value for JSON, which has no NaN and no infinities."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return list(value) if isinstance(value, tuple) else value


def _number(value: Answer) -> float:
    return Answer({"value": value.value}, value.fail, value.place).number("value")


def read_recipe(folder: Path) -> Recipe:
    """Read a recipe that :func:`write_recipe` wrote.

    Raises:
        InvalidError: there is none, or it is damaged.
    """
    path = folder / FILE

    def fail(problem: str) -> InvalidError:
        return InvalidError(
            f"{path} is no recipe: it {problem}", hint="aml-train reproduce MODEL --export writes one."
        )

    try:
        with path.open("rb") as file:
            document = Answer(decode(file.read(_MOST_BYTES)), fail)
    except OSError as error:
        raise fail(f"cannot be read: {error.strerror}") from error
    except UndecodableError as error:
        raise fail(str(error)) from error
    try:
        check_format(document.whole("format"), _FORMAT)
    except ValueError as error:
        raise fail(str(error)) from error
    image = document.optional_text("image")
    try:
        image and ImageRef.parse(image)
    except ValueError as error:
        raise fail(f"names an image that is none: {error}") from error
    original = document.at("original")
    return Recipe(
        model=document.text("model"),
        source=document.text("source"),
        image=image,
        document=document.mapping("job"),
        original=Training(
            job=original.text("job"),
            files=original.texts("files"),
            metrics={name: _number(value) for name, value in original.members("metrics")},
            facts=original.texts("facts"),
            changed_data=tuple(original.list_of_texts("changed_data")),
        ),
        folder=folder,
    )
