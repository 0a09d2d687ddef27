"""Imports that a run needs after its plan."""

from __future__ import annotations

from aml_train.config import Config
from aml_train.core.threads import in_background


def import_ahead(config: Config) -> None:
    """Begin to import what a run of *config* needs after its plan, in another thread.

    Meanwhile the run waits for git, the engine and the base's registry.
    """

    def work() -> None:
        import aml_train.pipeline.execute  # noqa: F401

        if config.image is not None:
            from aml_train.image import ensure_image, sweep_leftovers  # noqa: F401
        if config.target.kind == "azure":
            from aml_train.azure import open_azure  # noqa: F401
        else:
            from aml_train.local import open_local  # noqa: F401

    in_background(work, "imports")
