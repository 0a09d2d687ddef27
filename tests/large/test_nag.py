"""Training at scale as NAG's tutorial does it, by its own scripts. ``nox -s nag -- FOLDER``.

FOLDER is a checkout of numericalalgorithmsgroup/AzureML_Best_Practice. Its scripts run unchanged but for their own defects (DEFECTS);
the settings that the tutorial asks for are filled in. Stand-ins take the place of NVIDIA's image and of its packages for GPUs (``tests/stand_ins/nag``).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from aml_train.local import lifecycle as local
from aml_train.local.browser import browser_variables
from aml_train.local.environment import client_environment
from aml_train.local.settings import EmulatorInfo, EmulatorSettings
from tests.support.emulator_image import emulator_image
from tests.support.emulator_process import python_of_v1
from tests.support.ports import free_port

if TYPE_CHECKING:
    from docker import DockerClient

CHECKOUT: Final = Path(os.environ.get("AML_TRAIN_NAG", "/nowhere"))
IMAGE: Final = "aml-train-test-nag:1"
SECONDS: Final = 1800
NODES, PROCESSES, IMAGES = 4, 2, 12
#: The scripts' own packages besides azureml-core.
PACKAGES: Final = ("parallel-ssh==2.14.0", "termcolor==3.1.0")
_SUBMIT: Final = ("blobmount_submit_maskrcnn.py", "localdownload_submit_maskrcnn.py")
#: What no workspace could run, by file: the text, and what it is replaced by.
DEFECTS: Final = {
    **dict.fromkeys(
        _SUBMIT,
        (
            # sharedconfig.py calls them subscription_id and resource_group_name.
            ("sharedconfig.subscription,", "sharedconfig.subscription_id,"),
            ("sharedconfig.resource_group,", "sharedconfig.resource_group_name,"),
            # get_or_create_workspace() has a fourth parameter without default.
            (
                "sharedconfig.workspace_name,\n    )",
                "sharedconfig.workspace_name,\n        sharedconfig.location,\n    )",
            ),
        ),
    ),
    # Its class is in the tutorial's folder beeond alone.
    "common.py": (("import BeeONDClusterConnector, ClusterConnector", "import ClusterConnector"),),
    # The cluster has no node until a job waits for one, and the first of none is connected to by ssh.
    "clusterconnector.py": (
        ("        self._create_cluster_ssh_conns()\n        self._copy_nodefile_to_nodes()\n", ""),
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tutorial:
    """A reader of the tutorial, with the folder that it has the scripts in and the variables of the shell."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one of the scripts."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def info(engine: DockerClient) -> Iterator[EmulatorInfo]:
    settings = EmulatorSettings(
        name=f"aml-emulator-nag-{secrets.token_hex(4)}",
        image=emulator_image(engine),
        port=free_port(),
        registry_port=free_port(),
        fuse=True,
    )
    yield local.start_emulator(settings, lambda _event: None)
    local.reset_emulator(settings)


@pytest.fixture(scope="module")
def tutorial(info: EmulatorInfo, tmp_path_factory: pytest.TempPathFactory) -> Tutorial:
    assert CHECKOUT.is_dir(), "nox -s nag -- FOLDER: a checkout of numericalalgorithmsgroup/AzureML_Best_Practice"
    stand_in = Path(__file__).parents[1] / "stand_ins" / "nag"
    subprocess.run(["docker", "build", "--quiet", "--network=host", "--tag", IMAGE, str(stand_in)], check=True)
    folder = tmp_path_factory.mktemp("tutorial")
    packages = folder / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), *PACKAGES]
    subprocess.run(install, check=True)
    scripts = folder / "maskrcnn"
    shutil.copytree(CHECKOUT / "maskrcnn", scripts)
    for name, replacements in DEFECTS.items():
        text = (scripts / name).read_text()
        for defect, remedy in replacements:
            assert defect in text, (name, defect)
            text = text.replace(defect, remedy)
        (scripts / name).write_text(text)
    fill_in(scripts, info)
    environment = {name: os.environ[name] for name in ("PATH", "DOCKER_HOST") if name in os.environ}
    environment |= {"HOME": str(folder), "PYTHONPATH": str(packages)}
    environment |= client_environment(info, os.environ, cache=folder / "cache")
    reader = Tutorial(folder=scripts, environment=environment | browser_variables(sys.executable))
    register_data(folder / "coco", reader)
    return reader


def fill_in(scripts: Path, info: EmulatorInfo) -> None:
    """Set the options that the tutorial asks its reader to set, and a key."""
    settings: dict[str, object] = {
        "subscription_id": info.subscription_id,
        "resource_group_name": info.resource_group,
        "workspace_name": info.workspace,
        "location": info.location,
        "dataset_hot": "coco2017_trainval",
        "docker_image": IMAGE,
        "gpus_per_node": PROCESSES,
    }
    path = scripts / "sharedconfig.py"
    text = path.read_text()
    for name, value in settings.items():
        text, count = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value!r} ", text, count=1, flags=re.MULTILINE)
        assert count == 1, name
    path.write_text(text)
    (scripts / "clusterkey.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtleQ reader\n")


def register_data(folder: Path, reader: Tutorial) -> None:
    """Upload images and their list as COCO has them, and register the dataset."""
    (folder / "annotations").mkdir(parents=True)
    (folder / "train2017").mkdir()
    images = [{"id": number, "file_name": f"{number:012}.jpg"} for number in range(IMAGES)]
    for image in images:
        (folder / "train2017" / str(image["file_name"])).write_bytes(secrets.token_bytes(1000))
    (folder / "annotations" / "instances_train2017.json").write_text(json.dumps({"images": images}))
    script = (
        "import sys; from azure.ai.ml import MLClient; from azure.ai.ml.entities import Data; "
        "from azure.identity import EnvironmentCredential; "
        "MLClient(EnvironmentCredential(), *sys.argv[1:4]).data.create_or_update("
        "Data(name='coco2017_trainval', version='1', type='uri_folder', path=sys.argv[4]))"
    )
    text = (reader.folder / "sharedconfig.py").read_text()
    names = [re.search(rf"^{name} = '([^']*)'", text, re.MULTILINE) for name in _SCOPE]
    scope = [found.group(1) for found in names if found is not None]
    environment = {**reader.environment, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", script, *scope, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_SCOPE: Final = ("subscription_id", "resource_group_name", "workspace_name")


@pytest.mark.parametrize("script", _SUBMIT)
def test_a_flow(tutorial: Tutorial, script: str) -> None:
    done = tutorial.run(python_of_v1(), script, str(NODES), "--iter", "20", "--follow")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    size = NODES * PROCESSES
    ranks = {
        int(rank) for rank in re.findall(rf"^rank (\d+) of {size} read {IMAGES * 1000} bytes", done.stdout, re.M)
    }
    assert 0 in ranks, done.stdout[-6000:]
    assert re.search(r'"images": 12, "iterations": 20', done.stdout), done.stdout[-6000:]
