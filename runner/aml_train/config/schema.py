"""The JSON Schema of aml-train.yml, for editors."""

from __future__ import annotations

from typing import Any

from aml_train.config.document import DOCUMENT


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of aml-train.yml, made from the same definitions as the checks."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aml-train.yml",
        "description": "Configuration of aml-train: from a commit to a gated, registered model.",
        **DOCUMENT.schema(),
    }
