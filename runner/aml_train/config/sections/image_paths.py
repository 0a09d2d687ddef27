"""The places of the keys of ``image:``, and the paths that the build needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aml_train.config.section import CheckedTree
from aml_train.config.yaml.nodes import Mark, shown
from aml_train.config.yaml.source import absolute, kind_of


@dataclass(frozen=True, kw_only=True)
class ImageTree:
    """The section ``image`` of a checked file."""

    checked: CheckedTree

    @property
    def directory(self) -> Path:
        return self.checked.directory

    def has(self, *keys: str) -> bool:
        """Return whether the section has the key, with or without a fault."""
        return self.checked.has("image", *keys)

    def mark(self, *keys: str) -> Mark:
        """Return the place of a value, or of the last of *keys* that exists."""
        return self.checked.mark("image", *keys)

    def fault(self, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
        """Add a fault at the value under *keys*."""
        self.checked.faults.add(self.mark(*keys), what, why=why, remedy=remedy)

    def path(
        self, text: str | None, *keys: str, item: str = "", kinds: tuple[str, ...] = ("file",), remedy: str = ""
    ) -> Path | None:
        """Return a path that the build needs, absolute; None without *text*.

        None also after a fault.

        Args:
            text: the path as it is written, relative to the project.
            keys: its keys, for faults.
            item: the rest of its name, such as ``.0.from``, if *keys* name a list.
            kinds: what it may be, ``file`` or ``folder``.
            remedy: what to write instead of a path that is neither.
        """
        if text is None:
            return None
        path = absolute(self.directory / text)
        what = f"`{'.'.join(('image', *keys))}{item}` names `{shown(text)}`"
        found, why = kind_of(path)
        if found not in kinds:
            remedy = remedy or f"name a {' or a '.join(kinds)}"
            self.fault(what, *keys, why=why or f"it is a {found}", remedy=remedy)
            return None
        if not path.resolve().is_relative_to(self.directory.resolve()):
            why = f"it is copied into the image from `{self.directory}`"
            remedy = f"move it into the project's {'folder' if 'file' in kinds else 'tree'}"
            self.fault(f"{what}, which is outside the project", *keys, why=why, remedy=remedy)
            return None
        return path
