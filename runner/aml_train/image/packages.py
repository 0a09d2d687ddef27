"""What pip and dpkg really installed in an image."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from aml_train.engine import remove_container
from aml_train.errors import ImageError
from aml_train.leases import container_labels
from aml_train.stopping import Stop

if TYPE_CHECKING:
    from docker import DockerClient

# importlib.metadata tells the same as ``pip list`` in a quarter of the time.
_SCRIPT: Final = r"""
python=$(command -v python || command -v python3) && "$python" -c '
import importlib.metadata, json
print("pip " + json.dumps({d.name: d.version for d in importlib.metadata.distributions() if d.name}))'
command -v dpkg-query >/dev/null && dpkg-query -W -f "apt \${Package} \${Version}\n"
exit 0
"""
_LEASE: Final = 600.0


def installed_packages(engine: DockerClient, image: str, *, stop: Stop | None = None) -> dict[str, str]:
    """Return ``pip:name`` and ``apt:name`` → version for *image*, which the engine has. Sorted.

    Raises:
        ImageError: if the image cannot run a shell.
        StoppedError: if *stop* was set meanwhile.
    """
    from docker.errors import APIError

    try:
        container = engine.containers.create(
            image,
            entrypoint=["/bin/sh", "-c", _SCRIPT],
            command=[],
            labels=container_labels(engine, "packages", _LEASE),
            network_mode="none",
        )
        remove = partial(remove_container, container)
        try:
            with (stop or Stop()).frees(remove):
                container.start()
                exit_code: int = container.wait()["StatusCode"]
                output: bytes = container.logs(stdout=True, stderr=exit_code != 0)
        finally:
            remove()
    except APIError as error:
        raise _failed(str(error.explanation or error)) from error
    if exit_code != 0:
        raise _failed(f"exit code {exit_code}: {output.decode(errors='replace').strip()}")
    return parse_packages(output.decode(errors="replace"))


def _failed(reason: str) -> ImageError:
    return ImageError(f"the packages of the image cannot be listed: {reason}", hint="It must have /bin/sh.")


def parse_packages(text: str) -> dict[str, str]:
    """Read what the script printed: one line of JSON for pip, one line for each Debian package."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "pip":
            found |= {f"pip:{name}": version for name, version in json.loads(rest).items()}
        elif kind == "apt":
            name, _, version = rest.partition(" ")
            found[f"apt:{name}"] = version
    return dict(sorted(found.items()))
