"""What a user's scripts do with azureml-core. Run as a program: a step's name and its arguments as JSON.

Knows nothing of the emulator: everything it needs is in the environment and its arguments. Runs in the Python that has
azureml-core; see `v1_client`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMAGE = "python:3.11-slim-bookworm"
TRAIN = """
import os, pathlib, sys
print("hello", sys.argv[1:], os.environ["GREETING"], sorted(os.listdir(".")), flush=True)
pathlib.Path("outputs/model.txt").write_text("weights")
"""

DOCKERFILE = f"""
FROM {IMAGE}
RUN PIP_BREAK_SYSTEM_PACKAGES=1 python -m pip install --quiet --no-cache-dir --root-user-action=ignore azureml-core==1.61.0.post4
"""
CONTEXT = """
import os, pathlib
from azureml.core import Run

run = Run.get_context()
print("in", run.id, run.experiment.name, sorted(run.get_tags()), flush=True)
for epoch in range(3):
    run.log("loss", 1 / (epoch + 1))
run.log("note", "fine")
run.log("nan", float("nan"))
run.log_list("list", [1.5, 2.5])
run.log_row("row", x=1, y=2.5)
run.log_row("row", x=2, y=3.5)
run.log_table("table", {"a": [1, 2], "b": ["x", "y"]})
run.log_confusion_matrix(
    "matrix", {"schema_type": "confusion_matrix", "schema_version": "1.0.0", "data": {"class_labels": ["0"], "matrix": [[1]]}}
)
pathlib.Path("own").mkdir()
pathlib.Path("own/a.txt").write_text("a")
run.upload_file("uploads/one.txt", "own/a.txt")
run.upload_folder("folder", "own")
run.tag("mood", "good")
run.add_properties({"kind": "test"})
with run.child_run("first child") as child:
    child.log("inner", 7)
pathlib.Path("outputs/model.txt").write_text("weights")
model = run.register_model("from-inside", model_path="uploads/one.txt")
print("registered", model.id, flush=True)
"""


def workspace(given: dict[str, str]) -> Any:
    """Return the workspace, signed in by the environment's service principal through azure-identity."""
    from azure.identity import EnvironmentCredential
    from azureml.core import Workspace
    from azureml.core.authentication import TokenAuthentication

    credential = EnvironmentCredential()

    def token(audience: str) -> str:
        return str(credential.get_token(f"{audience.rstrip('/')}/.default").token)

    return Workspace.get(
        name=given["workspace"],
        subscription_id=given["subscription"],
        resource_group=given["group"],
        auth=TokenAuthentication(token, cloud="AzureCloud"),
    )


def environment(name: str, **more: Any) -> Any:
    """Return an environment that is an image."""
    from azureml.core import Environment

    found = Environment(name)
    found.docker.base_image = IMAGE
    found.python.user_managed_dependencies = True
    for key, value in more.items():
        setattr(found.docker, key, value)
    return found


def build(given: dict[str, str]) -> dict[str, Any]:
    """Build an environment's image without a job, and one that cannot be built."""
    ws = workspace(given)
    built = environment("v1-built", base_image=None, base_dockerfile=f"FROM {IMAGE}\nRUN echo built\n")
    before = built.register(ws).get_image_details(ws).image_exist
    details = built.build(ws)
    with contextlib.redirect_stdout(sys.stderr):  # It prints dots.
        details.wait_for_completion(show_output=False)
    image = built.register(ws).get_image_details(ws)
    broken = environment("v1-broken", base_image=None, base_dockerfile=f"FROM {IMAGE}\nRUN exit 3\n").build(ws)
    with contextlib.redirect_stdout(sys.stderr):
        broken.wait_for_completion(show_output=False)
    return {
        "before": before,
        "status": details.status,
        "log": details.get_log(),
        "exists": image.image_exist,
        "image": image.image,
        "broken": broken.status,
        "why": broken.get_log(),
    }


def source(given: dict[str, str], name: str, files: dict[str, str]) -> str:
    """Return a folder with these files."""
    folder = Path(given["folder"], name)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


def run(given: dict[str, str]) -> dict[str, Any]:
    """Submit a script, wait for it, log to it, and download what it made."""
    from azureml.core import Experiment, ScriptRunConfig

    ws = workspace(given)
    folder = source(given, "v1-src", {"train.py": TRAIN, "lib/part.py": "x = 1\n"})
    config = ScriptRunConfig(
        source_directory=folder,
        script="train.py",
        arguments=["--rate", 0.5, "--text", "it's $HOME"],
        compute_target=given["compute"],
        environment=environment("v1-env"),
    )
    config.run_config.environment_variables = {"GREETING": "a run"}
    submitted = Experiment(ws, "exp-v1").submit(config, tags={"commit": "abc"})
    details = submitted.wait_for_completion(show_output=False)
    submitted.log("accuracy", 0.9)
    submitted.flush()  # This is a client: outside of a job, nothing sends what is held when Python ends.
    downloads = Path(given["folder"], "downloads-v1")
    downloads.mkdir(exist_ok=True)
    submitted.download_file("outputs/model.txt", str(downloads / "model.txt"))
    submitted.download_files(prefix="user_logs", output_directory=str(downloads))
    (Path(folder) / "second.txt").write_text("2")
    again = Experiment(ws, "exp-v1").submit(config)
    again.wait_for_completion(show_output=False)
    return {
        "id": submitted.id,
        "status": details["status"],
        "target": details["target"],
        "script": details["runDefinition"]["script"],
        "tags": submitted.get_tags(),
        "metrics": submitted.get_metrics(),
        "files": submitted.get_file_names(),
        "log": (downloads / "user_logs/std_log.txt").read_text(),
        "model": (downloads / "model.txt").read_text(),
        "second": again.get_status(),
        "second log": again.get_details_with_logs()["logFiles"],
        "listed": [one.id for one in Experiment(ws, "exp-v1").get_runs()] == [again.id, submitted.id],
        "portal": submitted.get_portal_url(),
    }


def tutorial(given: dict[str, str]) -> dict[str, Any]:
    """What the tutorials do: a cluster, an environment, a run that logs from inside, a model."""
    from azureml.core import Environment, Experiment, Model, ScriptRunConfig
    from azureml.core.compute import AmlCompute, ComputeTarget
    from azureml.core.compute_target import ComputeTargetException

    ws = workspace(given)
    try:
        ComputeTarget(ws, "cpu-cluster")
        missing = "found"
    except ComputeTargetException as error:
        missing = str(error)
    settings = AmlCompute.provisioning_configuration(
        "STANDARD_DS3_V2", max_nodes=4, idle_seconds_before_scaledown=300
    )
    cluster = ComputeTarget.create(ws, "cpu-cluster", settings)
    cluster.wait_for_completion(show_output=False)
    own = Environment("tutorial-env")
    own.docker.base_dockerfile = DOCKERFILE
    own.python.user_managed_dependencies = True
    registered = own.register(ws)
    folder = source(given, "tutorial", {"train.py": CONTEXT})
    config = ScriptRunConfig(folder, script="train.py", compute_target=cluster, environment=registered)
    run = Experiment(ws, "tutorial").submit(config, tags={"from": "outside"})
    run.wait_for_completion(show_output=False)
    model = run.register_model(
        "tutorial-model", model_path="outputs/model.txt", tags={"a": "b"}, properties={"p": "q"}
    )
    model.add_tags({"k": "v"})
    downloads = Path(given["folder"], "downloads-tutorial")
    path = Model(ws, "tutorial-model").download(str(downloads))
    local = source(given, "local-model", {"one/weights.txt": "w", "two.txt": "2"})
    uploaded = Model.register(ws, local, "uploaded", model_framework=Model.Framework.SCIKITLEARN)
    back = uploaded.download(str(downloads / "back"))
    run.tag("after", "wards")
    children = list(run.get_children())
    return {
        "id": run.id,
        "missing": missing,
        "cluster": [
            cluster.get_status().allocation_state,
            cluster.vm_size,
            cluster.scale_settings.maximum_node_count,
        ],
        "environment": [
            registered.name,
            registered.version,
            Environment.get(ws, "tutorial-env").docker.base_dockerfile,
        ],
        "status": run.get_status(),
        "metrics": run.get_metrics(),
        "files": run.get_file_names(),
        "tags": run.get_tags(),
        "properties": run.get_properties().get("kind"),
        "children": [[one.name, one.get_status(), one.get_metrics()] for one in children],
        "logs": run.get_details_with_logs()["logFiles"],
        "model": [model.id, model.run_id, Model(ws, "tutorial-model").tags, model.properties],
        "models": sorted(one.id for one in Model.list(ws)),
        "tagged": [one.id for one in Model.list(ws, tags=[["k", "v"]])],
        "content": Path(path).read_text(),
        "back": sorted(str(one.relative_to(back)) for one in Path(back).rglob("*.txt")),
        "framework": Model(ws, "uploaded").model_framework,
    }


def data(given: dict[str, str]) -> dict[str, Any]:
    """Datastores, and data that a run gets from one."""
    from azureml.core import Dataset, Datastore, Experiment, ScriptRunConfig
    from azureml.data import OutputFileDatasetConfig
    from azureml.data.data_reference import DataReference

    ws = workspace(given)
    default = ws.get_default_datastore()
    local = source(given, "own-data", {"a.txt": "a", "deep/b.txt": "b"})
    default.upload(local, target_path="v1-data", show_progress=False)
    registered = Datastore.register_azure_blob_container(
        ws, "pictures", "pictures", default.account_name, account_key=default.account_key, create_if_not_exists=True
    )
    again = Datastore.register_azure_blob_container(
        ws, "pictures", "pictures", default.account_name, account_key=default.account_key, overwrite=True
    )
    writing = "import pathlib, sys; pathlib.Path(sys.argv[1], 'made.txt').write_text('made')"
    listing = (
        "import os, sys; print('got', sorted(os.listdir(sys.argv[1])), os.environ['AZUREML_DATAREFERENCE_0c4f'])"
    )
    using = (
        "import os, sys; print('dataset', os.listdir(sys.argv[1]), sys.argv[1] == os.environ['digits'],"
        " os.environ['plain'], os.environ['AZUREML_DATASET_ENVIRONMENT_VARS'])"
    )
    folder = source(given, "reading", {"list.py": listing, "write.py": writing, "use.py": using})
    reference = DataReference(default, data_reference_name="0c4f", path_on_datastore="v1-data", mode="download")
    config = ScriptRunConfig(
        folder, "list.py", [str(reference)], compute_target=given["compute"], environment=environment("v1-env")
    )
    config.run_config.data_references = {"0c4f": reference.to_config()}
    run = Experiment(ws, "data").submit(config)
    run.wait_for_completion(show_output=False)
    made = OutputFileDatasetConfig(name="made", destination=(default, "made/{run-id}")).register_on_complete(
        "made-data"
    )
    config = ScriptRunConfig(
        folder, "write.py", [made.as_upload()], compute_target=given["compute"], environment=environment("v1-env")
    )
    writer = Experiment(ws, "data").submit(config)
    writer.wait_for_completion(show_output=False)
    dataset = Dataset.get_by_name(ws, "made-data")
    config = ScriptRunConfig(
        folder,
        "use.py",
        [dataset.as_named_input("digits").as_mount()],
        compute_target=given["compute"],
        environment=environment("v1-env"),
    )
    config.run_config.data = {"plain": Dataset.get_by_id(ws, dataset.id).as_named_input("plain")}
    user = Experiment(ws, "data").submit(config)
    user.wait_for_completion(show_output=False)
    downloads = Path(given["folder"], "downloads-data")
    default.download(str(downloads), prefix=f"made/{writer.id}", show_progress=False)
    default.download(str(downloads), prefix="v1-data", show_progress=False)
    return {
        "default": default.name,
        "registered": [registered.name, registered.container_name, again.name],
        "datastores": sorted(ws.datastores),
        "log": run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"],
        "writer": writer.id,
        "dataset": [dataset.name, dataset.version, dataset.id],
        # azureml-core's mapping is empty for whoever asks for its length on the way.
        "known": sorted(name for name in ws.datasets),
        "read": [one["consumptionDetails"] for one in user.get_details()["inputDatasets"]],
        "used": user.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"],
        "files": sorted(str(one.relative_to(downloads)) for one in downloads.rglob("*.txt")),
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "run": run,
    "tutorial": tutorial,
    "build": build,
    "data": data,
}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
