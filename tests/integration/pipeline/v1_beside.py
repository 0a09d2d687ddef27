"""What a user of azureml-core does beside aml-train. Run as a program: a step's name and its arguments as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MATRIX = {"class_labels": ["cat", "dog"], "matrix": [[3, 1], [0, 2]]}
STAGE = "aml-train.stage"


def log(ws: Any, given: dict[str, str]) -> dict[str, Any]:
    """Log to a run that has ended, in all forms."""
    run = ws.get_run(given["run"])
    for epoch in range(30):
        run.log_row("epochs", epoch=epoch, loss=1 / (epoch + 1), who="me")
    run.log_table("fruit", {"name": ["<b>lemon</b>", "a|b"], "size": [1, 2.5]})
    run.log_list("list", [3.0, 1.0, 2.0])
    run.log("note", "it works")
    run.log_confusion_matrix("matrix", {"schema_type": "confusion_matrix", "schema_version": "1.0.0", "data": MATRIX})
    run.flush()  # This is a client: outside of a job, nothing sends what is held when Python ends.
    return {"list": run.get_metrics("list")["list"]}


def register(ws: Any, given: dict[str, str]) -> dict[str, Any]:
    """Register a run's model, which is in use already, and one of files that no run wrote."""
    from azureml.core import Model

    run = ws.get_run(given["run"])
    first = run.register_model("by-core", model_path="outputs/model.txt", tags={STAGE: "production"})
    second = run.register_model("by-core", model_path="outputs/model.txt")
    file = Path(given["folder"], "weights.txt")
    file.write_text("w")
    loose = Model.register(ws, str(file), "loose")
    return {"versions": [first.version, second.version], "loose": loose.version}


def stages(ws: Any, given: dict[str, str]) -> dict[str, Any]:
    """Ask by tags, as azureml-core does, which version is in which stage."""
    from azureml.core import Model

    def versions(**more: Any) -> list[int]:
        return [one.version for one in Model.list(ws, name="by-core", **more)]

    return {
        "production": versions(tags=[[STAGE, "production"]]),
        "archived": versions(tags=[[STAGE, "archived"]]),
        "by us": [
            one.version for one in Model.list(ws, name="v1-model", properties=[["aml-train.job", given["run"]]])
        ],
        "reason": Model(ws, "by-core", version=2).tags["aml-train.promotion-reason"],
    }


def main() -> None:
    """Sign in by the environment, and take one step."""
    from azure.identity import EnvironmentCredential
    from azureml.core import Workspace
    from azureml.core.authentication import TokenAuthentication

    given: dict[str, str] = json.loads(sys.argv[2])
    credential = EnvironmentCredential()

    def token(audience: str) -> str:
        return str(credential.get_token(f"{audience.rstrip('/')}/.default").token)

    ws = Workspace.get(
        name=given["workspace"],
        subscription_id=given["subscription"],
        resource_group=given["group"],
        auth=TokenAuthentication(token, cloud="AzureCloud"),
    )
    step = {"log": log, "register": register, "stages": stages}[sys.argv[1]]
    print(json.dumps(step(ws, given)))


if __name__ == "__main__":
    main()
