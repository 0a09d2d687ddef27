"""What scripts do with assets, by the real azure-ai-ml. Run as a program, as client_steps.py is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client

COMPONENT = """
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: say
version: 1
description: says it
environment: azureml:tool:1
inputs: {word: {type: string}}
command: echo ${{inputs.word}}
"""


def assets(given: dict[str, str]) -> dict[str, Any]:
    """Validate, archive, and ask for what is not there."""
    from azure.ai.ml import load_component
    from azure.ai.ml.entities import Environment
    from azure.core.exceptions import ResourceNotFoundError

    ml, folder = client(given), Path(given["folder"], "assets")
    folder.mkdir()
    for image in ("python:3.11", "python:3.12"):
        ml.environments.create_or_update(Environment(name="tool", image=image))
    ml.environments.archive("tool", version="1")
    (folder / "component.yml").write_text(COMPONENT)
    component = load_component(folder / "component.yml")
    validated = ml.components.validate(component, skip_remote_validation=False)
    try:
        missing = list(ml.models.list("nothing"))
    except ResourceNotFoundError as error:
        missing = [error.error.details[0].code]
    return {
        "active": [one.version for one in ml.environments.list("tool")],
        "validated": validated.passed,
        "missing": missing,
    }


if __name__ == "__main__":
    print(json.dumps(assets(json.loads(sys.argv[2]))))
