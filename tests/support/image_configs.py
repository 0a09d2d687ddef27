"""Image configurations that several tests render, with the inputs that the world would give."""

from __future__ import annotations

from pathlib import Path

from aml_train.config.sections.image import CopyConfig, ImageConfig, RunStep, SecretConfig
from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.config.sections.image_packages import CondaConfig, PipConfig, ProtectConfig
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.inputs import BaseImage, ImageInputs
from aml_train.image.spec import ImageSpec, plan_image

DIGEST = "sha256:" + "a" * 64
BASE = BaseImage(reference=ImageRef.parse("nvcr.io/nvidia/pytorch:21.02-py3"), digest=DIGEST)
MICROMAMBA = f"mambaorg/micromamba@sha256:{'c' * 64}"
OFED = {
    "tarball": OfedConfig(source="mlnx_ofed", version="5.8-2.0.3.0", os="ubuntu20.04"),
    "mirror": OfedConfig(
        source="mlnx_ofed", version="5.0-2.1.8.0", url="http://mirror/o.tgz", sha256="1" * 64, os="debian12"
    ),
    "package": OfedConfig(source="doca", version="3.2.1", os="ubuntu24.04"),
    "distro": OfedConfig(source="distro"),
}

FULL = ImageConfig(
    base=BASE.reference,
    ofed=OFED["tarball"],
    apt=("libfuse-dev", "libcap2=1:2.66-4"),
    pip=PipConfig(
        requirements=Path("/project/requirements.txt"),
        packages=("numpy>=2", "x; python_version < '3.12'"),
        constraints=Path("/project/constraints.txt"),
        index_url="https://build:${token}@pypi.example.com/simple",
        extra_index_urls=("https://pypi.org/simple", "https://${other}@b.example.com/$x"),
        netrc="logins",
    ),
    conda=CondaConfig(file=Path("/project/environment.yml")),
    azureml_mlflow="1.62.0",
    azureml_defaults="latest",
    env={"B": 'say "$HOME"', "A": "1"},
    copy=(CopyConfig(source=Path("/project/data"), target="/opt/data"),),
    run=(RunStep(command="make -C /opt/data"), RunStep(command="fetch /run/secrets/token", secrets=("token",))),
    user="azureml",
    ca_certificates=(Path("/project/ca.pem"),),
    secrets={name: SecretConfig(env=name.upper()) for name in ("token", "other", "logins")},
    refresh=7 * 86400.0,
    protect=ProtectConfig(packages=("torch", "nvidia-*"), allow=("nvidia-x",)),
    repository="digits",
    where="aml-train.yml:2",
)
INPUTS = ImageInputs(
    files={
        "requirements.txt": b"scikit-learn\n",
        "constraints.txt": b"numpy<3\n",
        "environment.yml": b"dependencies: [python]\n",
        "ca-certificates/0-ca.crt": b"-----BEGIN CERTIFICATE-----\n",
        "protect.py": b"",
    },
    trees={
        "copy/0": FileSet(
            root=Path("/project/data"), entries=(FileEntry(path="l", executable=False, size=0, link="m"),)
        )
    },
    requirements="requirements.txt",
    micromamba=MICROMAMBA,
    refreshed="2026-11-16T00:00Z",
)


def plan(config: ImageConfig = FULL, base: BaseImage = BASE, inputs: ImageInputs = INPUTS) -> ImageSpec:
    """Plan an image for linux/amd64."""
    return plan_image(config, base, inputs, "linux/amd64")
