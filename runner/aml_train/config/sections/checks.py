"""The grammar of ``image.checks`` in aml-train.yml. docs/image-checks.md explains it."""

from __future__ import annotations

from typing import Final

from aml_train.config.yaml.shapes import Choice
from aml_train.config.yaml.structures import Items, Key, Record
from aml_train.core.checks import CHECKS

CHECKS_KEY: Final = Key(
    Record(
        noun="a mapping with `ignore`",
        keys={
            "ignore": Key(
                Items(noun="a list of checks", item=Choice(words=tuple(CHECKS))),
                "Checks whose errors and warnings are allowed; docs/image-checks.md names them.",
            )
        },
    ),
    "Readiness checks of the image for AzureML and InfiniBand.",
)
