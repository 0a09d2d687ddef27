"""Parts of the configuration, where nothing else of it matters: data is moved, and models are promoted, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.config.assemble import choose_target
from aml_train.config.document import DOCUMENT
from aml_train.config.job.load import name_of, read_tree
from aml_train.config.load import NAMES
from aml_train.config.model import TargetConfig
from aml_train.config.sections.model import PromotionConfig, promotion_config
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, shown
from aml_train.config.yaml.source import absolute, kind_of
from aml_train.config.yaml.structures import Record
from aml_train.core.errors import InvalidError

_KEYS: Final = ("target", "targets")
_PROMOTING: Final = (*_KEYS, "gate", "baseline", "model", "promote")


def _part(keys: Sequence[str]) -> Record:
    return Record(noun=DOCUMENT.noun, keys={key: DOCUMENT.keys[key] for key in keys})


_PART: Final = _part(_KEYS)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of a configuration, by name. *directory* is the folder that it stands in, absolute."""

    directory: Path
    tree: MapNode

    def named(self, name: str | None) -> TargetConfig:
        """Return the target called *name*; None is the configuration's own choice, else ``local``.

        Raises:
            InvalidError: there is none of that name, or what is written under ``target`` and ``targets`` is wrong.
        """
        faults = Faults()
        values = _PART.check(self.tree, "", faults)
        chosen = choose_target(self.tree, values, name, directory=self.directory, faults=faults)
        faults.raise_if_any()
        if chosen is None:  # pragma: no cover - it is missing only after a complaint
            raise AssertionError("there is no target and no complaint")
        return chosen


def load_targets(path: Path | None, *, directory: Path) -> Targets:
    """Read ``target`` and ``targets`` of the configuration; nothing else of it is looked at.

    Args:
        path: the aml-train.yml; None for the one in *directory*, if there is any.
        directory: where to look.

    Raises:
        InvalidError: the file cannot be read, or is no mapping.
    """
    return _read(path, directory, _KEYS)[0]


def load_promotion(path: Path | None, *, directory: Path, target: str | None) -> PromotionConfig:
    """Read what promoting a model needs: the target, the model, ``gate`` and ``promote``; the job is not looked at.

    Args:
        path: the aml-train.yml; None for the one in *directory*.
        directory: where to look.
        target: the target's name, instead of that in the file.

    Raises:
        InvalidError: there is no such file, or what is written under these keys is wrong.
    """
    read, file = _read(path, directory, _PROMOTING)
    if file is None:
        raise InvalidError(
            f"There is no {NAMES[0]} in {shown(str(read.directory), 200)}: nothing says what a model must meet.",
            hint="Name the folder with -C, or the file with --config; `promote: {production: {gate: …}}` is the policy.",
        )
    faults = Faults()
    values = _part(_PROMOTING).check(read.tree, "", faults)
    found = promotion_config(read.tree, values, target, directory=read.directory, faults=faults)
    faults.raise_if_any()
    if found is None:  # pragma: no cover - it is missing only after a complaint
        raise AssertionError("there is no configuration and no complaint")
    return found


def _read(path: Path | None, directory: Path, keys: Sequence[str]) -> tuple[Targets, Path | None]:
    """Read some keys of the configuration; the second part is its file, None where there is none."""
    base = absolute(directory)
    found = [base / name for name in NAMES if kind_of(base / name)[0] != "missing"]
    file = absolute(base / path) if path is not None else (found[0] if found else None)
    if file is None:
        return Targets(directory=base, tree=MapNode(mark=Mark(file=NAMES[0]), entries={})), None
    faults = Faults()
    name = name_of(file, base)
    tree = read_tree(file, Mark(file=name), name, faults)
    faults.raise_if_any()
    entries = {key: tree.entries[key] for key in keys if key in tree.entries} if tree is not None else {}
    return Targets(directory=file.parent, tree=MapNode(mark=Mark(file=name, line=1), entries=entries)), file
