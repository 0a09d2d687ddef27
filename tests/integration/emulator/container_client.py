"""A user's script: the real azure-ai-ml against whatever the environment leads to. Prints JSON.

python container_client.py submit FOLDER IMAGE COMMAND COMPUTE
python container_client.py wait NAME [STATUS]       for a terminal status, or for STATUS
python container_client.py status NAME
python container_client.py cancel NAME
python container_client.py download NAME FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from azure.ai.ml import Input, MLClient, Output, command
from azure.ai.ml.entities import Environment
from azure.identity import EnvironmentCredential

TERMINAL = {"Completed", "Failed", "Canceled"}


def client() -> MLClient:
    return MLClient(
        EnvironmentCredential(),
        os.environ["AZURE_SUBSCRIPTION_ID"],
        os.environ["AML_RESOURCE_GROUP"],
        os.environ["AML_WORKSPACE"],
    )


def submit(ml: MLClient, folder: str, image: str, line: str, compute: str) -> Any:
    job = command(
        code=folder,
        command=line,
        environment=Environment(image=image),
        compute=compute,
        inputs={"rate": 0.25, "data": Input(type="uri_file", path=os.path.join(folder, "data.csv"))},  # noqa: PTH118
        outputs={"model": Output(type="uri_folder")},
        environment_variables={"COLOUR": "blue"},
    )
    return ml.jobs.create_or_update(job)


def main(verb: str, *arguments: str) -> object:
    ml = client()
    match verb, arguments:
        case "submit", (folder, image, line, compute):
            return submit(ml, folder, image, line, compute).name
        case "wait", (name, *wanted):
            deadline = time.monotonic() + 600
            while (status := ml.jobs.get(name).status) not in {*TERMINAL, *wanted} and time.monotonic() < deadline:
                time.sleep(0.1)
            return status
        case "status", (name,):
            return ml.jobs.get(name).status
        case "cancel", (name,):
            ml.jobs.begin_cancel(name).result()
            return None
        case "download", (name, folder):
            ml.jobs.download(name, download_path=folder, all=True)
            # all=True leaves named outputs out with azure-ai-ml 1.35 (azure-sdk-for-python#48941, mended for those by name).
            for output in ml.jobs.get(name).outputs.keys() - {"default"}:
                ml.jobs.download(name, download_path=folder, output_name=output)
            return None
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
