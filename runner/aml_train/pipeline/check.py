"""Check a configuration and its files as planning does, without asking a service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aml_train.config.model import Config
from aml_train.config.sections.image import ImageConfig
from aml_train.core.errors import Combined
from aml_train.pipeline.plan import make_plan
from aml_train.pipeline.resolve import Surroundings, resolve, resolve_image, target_names
from aml_train.pipeline.run_files import file_ids, secret_files
from aml_train.pipeline.sdk import with_sdk


def check_image(image: ImageConfig, project: Path) -> None:
    """Check the files of *image*, without asking a service.

    Raises:
        InvalidError: with every fault.
    """
    resolve_image(image, None, project, None, Surroundings(platform="linux/amd64", check=True))


def check_run(config: Config, environ: Mapping[str, str]) -> None:
    """Check all that a plan refuses without asking a service.

    Raises:
        InvalidError: with every fault.
    """
    together = Combined()
    with together.part():
        names = target_names(config, environ)
    with together.part():
        config = with_sdk(config)
    with together.part():
        own = file_ids(*secret_files(config))
        here = Surroundings(platform="linux/amd64", commit=lambda _folder: None, own=own, check=True)
        resolved = resolve(config, here)
    together.raise_if_any()
    make_plan(config, resolved, names)
