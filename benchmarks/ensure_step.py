"""The stages up to the image, as a process.

Usage: ``python -m benchmarks.ensure_step PROJECT REGISTRY``.

Prints one line of JSON: the digest, whether the image was built or found, and the seconds of each stage. With ``--floor`` it only imports what finding
an image takes; with ``--context FOLDER`` it only writes the Dockerfile and what that copies. It begins and ends as the command ``aml-train`` does.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from aml_train.core.threads import exit_process
from aml_train.image.builders.engine import EngineBuilder


def main() -> None:
    """Have the image."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project", type=Path)
    parser.add_argument("registry", help="host and port")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--context", type=Path)
    given = parser.parse_args()

    import docker.errors  # noqa: F401 - imported by functions of the step
    import requests  # noqa: F401

    from aml_train.config.load import load_config
    from aml_train.core.docker import buildkit_cli
    from aml_train.core.events import Broadcast, Event, StageFinished
    from aml_train.image.base import BaseImages  # noqa: F401
    from aml_train.image.builders.place import BuildPlace  # noqa: F401
    from aml_train.image.ensure import ensure_image
    from aml_train.image.registry.client import RegistryLocation
    from aml_train.pipeline.prepare import prepare_run
    from aml_train.pipeline.target import Host

    if given.floor:
        return
    config = load_config(None, directory=given.project)
    prepared = prepare_run(config, Host(environ=os.environ))
    if prepared.plan.image is None:
        parser.error("the project has no image")
    if given.context is not None:
        from aml_train.image.build.build import write_context

        write_context(given.context, prepared.plan.image.files, prepared.plan.image.trees)
        (given.context / "Dockerfile").write_text(prepared.plan.image.dockerfile)
        return
    seconds: dict[str, float] = {}

    def keep(event: Event) -> None:
        if isinstance(event, StageFinished):
            seconds[event.stage] = event.seconds

    tested = ensure_image(
        prepared.plan.image,
        prepared.plan.tests,
        engine=prepared.host.engine(),
        builder=lambda: EngineBuilder(lambda: buildkit_cli(os.environ)),
        location=RegistryLocation(push_name=given.registry, job_name=given.registry, url=f"http://{given.registry}"),
        listener=Broadcast(keep),
        commit=None,
    )
    said = {"digest": tested.digest, "how": tested.how, "tested": tested.record is not None, "seconds": seconds}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
    exit_process(0)
