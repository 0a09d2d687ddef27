"""``python -m scripts.examples CHECKOUT --image IMAGE``: run the job files of Azure/azureml-examples on a local AzureML.

Each job file is read by azure-ai-ml and by aml-train. What azure-ai-ml reads, it submits unedited to an emulator that is started
for it, and the job is followed to its end. The results are kept in scripts/docs/examples.json, of which ``python -m scripts.docs
write`` makes docs/emulator-coverage.md.

Microsoft's images and data are not in reach. An image of this machine plays the curated environments; images by name (``python``)
have to be on the engine; assets that the READMEs of the examples create are created first.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError
from aml_train.pipeline.check import check_image, check_run
from scripts.docs.coverage import RESULTS, UNTRIED, reason

_KINDS: Final = ("command", "pipeline", "sweep", "automl", "spark", "finetuning", "distillation")
_ENDS: Final = ("Completed", "Failed", "Canceled", "NotResponding")
_CURATED: Final = ("sklearn-1.5", "AzureML-sklearn-1.5", "AzureML-lightgbm-3.3", "*tensorflow-2.16-cuda12")
_CLUSTERS: Final = {
    "cpu-cluster": "Standard_DS3_v2",
    "cpu-cluster-lg": "Standard_DS3_v2",
    "batch-cluster": "Standard_DS3_v2",
    "gpu-cluster": "Standard_NC6s_v3",
    "gpu-v100-cluster": "Standard_NC6s_v3",
}
_BASICS: Final = "cli/jobs/pipelines-with-components/basics"


def job_files(checkout: Path) -> Iterator[str]:
    """Yield the job files of a checkout, known by their ``$schema``, or without one by ``type``, ``command`` or ``jobs``."""
    for path in sorted([*checkout.rglob("*.yml"), *checkout.rglob("*.yaml")]):
        name = path.relative_to(checkout).as_posix()
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError:
            continue
        if not isinstance(document, dict) or name.startswith(".github/"):
            continue
        schema, kind = str(document.get("$schema", "")), str(document.get("type", "")).lower()
        other = re.search(r"schema\.json|Component", schema)
        named = kind in _KINDS or "command" in document or "jobs" in document
        if re.search(r"job\.schema\.json", schema, re.IGNORECASE) or (named and not other):
            yield name


def faults(file: Path) -> str:
    """Return what `aml-train validate` says of a job file; empty if it is valid."""
    try:
        check_run(load_config(None, directory=file.parent, job=file, check=check_image), {})
    except InvalidError as error:
        return "; ".join(str(fault) for fault in error.faults) or error.message
    return ""


class Workspace:
    """The workspace of a local AzureML, by azure-ai-ml; make it when the environment has the emulator's variables."""

    def __init__(self, info: dict[str, Any], log: Path) -> None:
        from azure.ai.ml import MLClient
        from azure.identity import EnvironmentCredential

        self.log = log
        scope = (info["subscription_id"], info["resource_group"], info["workspace"])
        self.credential = EnvironmentCredential()
        self.client = MLClient(self.credential, *scope)

    def prepare(self, checkout: Path) -> None:
        """Create the clusters and assets that the examples' READMEs create, with a small file in place of Microsoft's data."""
        from azure.ai.ml import load_component, load_data
        from azure.ai.ml.entities import AmlCompute, Data
        from azure.storage.blob import BlobServiceClient

        for name, size in _CLUSTERS.items():
            self.client.compute.begin_create_or_update(AmlCompute(name=name, size=size, max_instances=4)).result()
        for name in ("train", "score", "eval"):
            component = load_component(checkout / _BASICS / f"1b_e2e_registered_components/{name}.yml")
            self.client.components.create_or_update(component)
        self.client.data.create_or_update(load_data(checkout / _BASICS / "4d_data_input/data.yml"))
        samples = checkout / "cli/assets/data/sample-data"
        self.client.data.create_or_update(Data(name="sampledata", path=str(samples), type="uri_folder"))
        store = self.client.datastores.get_default()
        url = f"https://{store.account_name}.blob.core.windows.net"
        blobs = BlobServiceClient(url, credential=self.credential)
        iris = "sepal_length,sepal_width,petal_length,petal_width,species\n5.1,3.5,1.4,0.2,setosa\n6.3,3.3,6.0,2.5,virginica\n"
        for path in ("example-data/iris.csv", "azureml/4b_datastore_datapath_uri/hello-world.txt"):
            blobs.get_blob_client(store.container_name, path).upload_blob(iris.encode(), overwrite=True)

    def submit(self, file: Path) -> str:
        """Submit a job file and return the job's name; azure-ai-ml's own exceptions pass."""
        from azure.ai.ml import load_job

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return str(self.client.jobs.create_or_update(load_job(file)).name)

    def ended(self, name: str) -> dict[str, str] | None:
        """Return the status of a job that has ended, and what the log of the emulator says of it and its failed nodes; None before."""
        status = self.client.jobs.get(name).status
        if status not in _ENDS:
            return None
        below = [] if status == "Completed" else [name, *self._children(name)]
        log = self.log.read_text(encoding="utf-8")
        said = [found[1] for one in below if (found := re.search(rf"job {one}: Failed \((.*)", log))]
        return {"status": status, "said": _plain(" ".join(said))[:1500]}

    def _children(self, name: str) -> Iterator[str]:
        """Yield the names of a pipeline's nodes and of a sweep's trials, with theirs."""
        for job in self.client.jobs.list(parent_job_name=name):
            yield job.name
            yield from self._children(job.name)


def _plain(text: object) -> str:
    return " ".join(re.sub(r"\x1b\[\d+m", "", str(text)).split())


def run(
    workspace: Workspace, checkout: Path, names: Sequence[str], *, seconds: float, at_once: int
) -> Iterator[tuple[str, Any]]:
    """Yield each file with its result: ``status`` (``refused`` if it was not accepted) and what was ``said`` of a failure."""
    waiting, running = list(names), dict[str, tuple[str, float]]()
    while waiting or running:
        while waiting and len(running) < at_once:
            file = waiting.pop(0)
            try:
                running[file] = (workspace.submit(checkout / file), time.monotonic())
            except Exception as error:  # noqa: BLE001 - whatever azure-ai-ml raises is the result
                yield file, {"status": "refused", "said": _plain(f"{type(error).__name__}: {error}")[:1500]}
        time.sleep(1)
        for file, (name, began) in list(running.items()):
            found = workspace.ended(name)
            if found is None and time.monotonic() - began > seconds:
                workspace.client.jobs.begin_cancel(name)
                found = {"status": "refused", "said": f"it did not end within {seconds:.0f} s"}
            if found is not None:
                del running[file]
                yield file, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Read, run and record the examples; return 0."""
    parser = argparse.ArgumentParser(prog="scripts.examples", description="Run azureml-examples on a local AzureML.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--image", required=True, help="the image that plays the curated environments")
    parser.add_argument("--seconds", type=float, default=1200, help="the time that a job may take")
    parser.add_argument("--only", default="", help="a regular expression of file names; how the others ran is kept")
    parser.add_argument("--at-once", type=int, default=3)
    options = parser.parse_args(arguments)
    from tests.support.emulator_process import Emulator

    checkout = options.checkout.resolve()
    logging.disable(logging.WARNING)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        service = Emulator(Path(folder))
        service.start()
        try:
            for pattern in _CURATED:
                service.admin("POST", f"environments?pattern={pattern}&image={options.image}").raise_for_status()
            os.environ.update(service.environment())
            workspace = Workspace(service.info, service.log)
            workspace.prepare(checkout)
            names = list(job_files(checkout))
            results = {
                name: {"why": UNTRIED, **results.get(name, {}), "validate": faults(checkout / name)} for name in names
            }
            chosen = [name for name in names if re.search(options.only, name)]
            for name, found in run(workspace, checkout, chosen, seconds=options.seconds, at_once=options.at_once):
                print(json.dumps({"file": name, **found}), flush=True)
                ran = found["status"] == "Completed"
                results[name]["why"] = "" if ran else reason(results[name]["validate"], found["said"])
                text = json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False)
                RESULTS.write_text(f"{text}\n", encoding="utf-8")
        finally:
            service.admin("POST", "reset?force=1")
            service.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
