"""The grammar of what is sent with a job: ``code:`` in aml-train.yml. docs/configuration.md has the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aml_train.config.model import CodeConfig
from aml_train.config.shapes import Number, Text
from aml_train.config.structures import Items, Key, Record
from aml_train.config.tests_grammar import size_shape

CODE: Final = Record(
    noun="a mapping with such keys as `max-size`",
    keys={
        "max-size": Key(
            size_shape("a size such as `1g`"), "Most bytes of the code snapshot, such as `1g`; 300 MB by default."
        ),
        "max-files": Key(
            Number(noun="a whole number of files", minimum=1), "Most files of the code snapshot; 2000 by default."
        ),
        "include": Key(
            Items(item=Text(noun="a gitignore pattern"), noun="a list of gitignore patterns", least=1),
            "Files that belong to the snapshot although they look like secrets or caches, as gitignore patterns.",
        ),
    },
)


def code_config(found: Mapping[str, Any]) -> CodeConfig:
    """Make ``code``."""
    return CodeConfig(
        max_size=found.get("max-size", CodeConfig.max_size),
        max_files=found.get("max-files", CodeConfig.max_files),
        include=tuple(found.get("include", ())),
    )
