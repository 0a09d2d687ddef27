"""The workspace that jobs of Azure/azureml-examples need. Run as a separate process by tests/large/test_azureml_examples.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from azure.ai.ml import MLClient
from azure.ai.ml.entities import AmlCompute, Data
from azure.identity import DefaultAzureCredential


def fill(client: MLClient, given: dict[str, str]) -> dict[str, Any]:
    """Create the clusters and data that the examples name."""
    for name in given["clusters"].split():
        client.compute.begin_create_or_update(AmlCompute(name=name, size="STANDARD_DS3_V2", max_instances=2)).result()
    data = Path(given["folder"], "cli/assets/data")
    for name in ("local-folder-example", "sampledata"):
        client.data.create_or_update(Data(name=name, version="1", type="uri_folder", path=str(data / "example-data")))
    return {}


STEPS = {"fill": fill}

if __name__ == "__main__":
    step, arguments = sys.argv[1], json.loads(sys.argv[2])
    scope = (arguments["subscription"], arguments["group"], arguments["workspace"])
    print(json.dumps(STEPS[step](MLClient(DefaultAzureCredential(), *scope), arguments)))
