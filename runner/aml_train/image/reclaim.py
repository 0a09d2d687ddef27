"""Free the disk of a hosted runner of toolchains that a build does not need.

Nothing is removed unless ``image.reclaim-disk`` says so, and nothing on a machine that is not a hosted runner of GitHub, which is used
for one job and thrown away. Folders: https://github.com/actions/runner-images, ``images/ubuntu/scripts/build`` (install-android-sdk.sh,
install-dotnetcore-sdk.sh, install-haskell.sh, install-swift.sh, install-codeql-bundle.sh, install-powershell.sh).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from aml_train.core.docker import in_container, own_container, remove_container
from aml_train.core.events import Listener, Notice
from aml_train.core.text import size
from aml_train.core.threads import temporary
from aml_train.image.leftovers import container_labels

if TYPE_CHECKING:
    from docker import DockerClient

FOLDERS: Final[Mapping[str, str]] = {
    "/usr/local/lib/android": "Android SDK",
    "/usr/share/dotnet": ".NET",
    "/opt/ghc": "GHC",
    "/usr/local/.ghcup": "GHCup",
    "/usr/share/swift": "Swift",
    "/opt/hostedtoolcache/CodeQL": "CodeQL",
    "/usr/local/share/powershell": "PowerShell",
}
"""Folder of a hosted runner → what is in it."""

_HOSTED: Final = "RUNNER_ENVIRONMENT"
"""``github-hosted`` or ``self-hosted``: https://docs.github.com/actions/reference/workflows-and-actions/variables."""
_ROOTS: Final = ("/usr", "/opt")
_MOUNT: Final = "/runner"
_SECONDS: Final = 600.0
_LINE: Final = re.compile(r"removed (?P<kibibytes>\d{1,15}) (?P<path>/\S+)")

# A folder that is a link is left alone: what it leads to is not known.
_SCRIPT: Final = """
root=$1
failed=0
shift
for path in "$@"; do
    if [ -d "$root$path" ] && [ ! -L "$root$path" ]; then
        used=$(du -skx "$root$path" 2>/dev/null | cut -f1)
        if rm -rf -- "$root$path"; then echo "removed ${used:-0} $path"; else failed=1; fi
    fi
done
exit $failed
"""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """A folder that was removed, and the bytes that it had."""

    path: str
    size: int


def reclaim_disk(engine: DockerClient, environ: Mapping[str, str], listener: Listener) -> tuple[Removed, ...]:
    """Remove the toolchains of a hosted runner; report each with its size.

    In a container, such as that of the action, another container of the same image does it: the folders are the machine's.

    Args:
        engine: the machine's engine.
        environ: the process's environment, which says what runner this is.
        listener: receives what was removed, or why nothing was.
    """
    if environ.get(_HOSTED) != "github-hosted":
        text = f"`image.reclaim-disk` removes nothing here: this is no hosted runner of GitHub ({_HOSTED} is not `github-hosted`)."
        listener(Notice(text=text))
        return ()
    try:
        output = _by_container(engine) if in_container() else run_script(["sudo", "-n"], "", tuple(FOLDERS))
    except _FailedError as error:
        listener(Notice(text=f"`image.reclaim-disk` failed: {error}", level="warning"))
        output = error.output
        if not output:
            return ()
    removed = parse_removed(output)
    listener(Notice(text=summary(removed)))
    return removed


def run_script(prefix: Sequence[str], root: str, paths: Sequence[str]) -> str:
    """Remove *paths* below *root* by a shell; return its output.

    Args:
        prefix: words before the shell, such as ``sudo -n``.
        root: precedes each path; empty for this machine's own.
        paths: absolute.

    Raises:
        _FailedError: the shell does not start, fails, or takes too long.
    """
    try:
        done = subprocess.run(
            [*prefix, "/bin/sh", "-c", _SCRIPT, "sh", root, *paths],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _FailedError(str(error)) from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"the shell ended with {done.returncode}"]
        raise _FailedError(said[-1][:300], output=done.stdout)
    return done.stdout


class _FailedError(Exception):
    """The folders were not removed, or not all of them.

    Args:
        output: what the script said of those that were.
    """

    def __init__(self, message: str, *, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def _by_container(engine: DockerClient) -> str:
    """Remove the folders in a container that has the machine's `/usr` and `/opt`."""
    import requests
    from docker.errors import DockerException
    from docker.types import Mount

    own = own_container(engine)
    if own is None:
        raise _FailedError("this process's own container is not found")
    image = str(own.attrs["Image"])
    mounts = [Mount(target=f"{_MOUNT}{root}", source=root, type="bind") for root in _ROOTS]
    create = partial(
        engine.containers.create,
        image,
        entrypoint=["/bin/sh", "-c", _SCRIPT, "sh", _MOUNT, *FOLDERS],
        command=[],
        user="0",
        mounts=mounts,
        labels=container_labels(engine, "reclaim-disk", _SECONDS),
        network_mode="none",
    )
    try:
        with temporary(create, remove_container) as container:
            container.start()
            container.wait(timeout=_SECONDS)
            output: bytes = container.logs(stderr=False)
    except (DockerException, requests.RequestException) as error:
        raise _FailedError(f"the engine cannot remove the folders: {error}") from error
    return output.decode("utf-8", "replace")


def parse_removed(output: str) -> tuple[Removed, ...]:
    """Return what the script's *output* says was removed. Pure."""
    found = (_LINE.fullmatch(line.strip()) for line in output.splitlines())
    return tuple(
        Removed(path=match["path"], size=int(match["kibibytes"]) * 1024)
        for match in found
        if match is not None and match["path"] in FOLDERS
    )


def summary(removed: Sequence[Removed]) -> str:
    """Return a sentence on what was removed. Pure."""
    if not removed:
        return "`image.reclaim-disk` found nothing to remove on this runner."
    listed = ", ".join(f"{FOLDERS[one.path]} ({one.path}, {size(one.size)})" for one in removed)
    return f"`image.reclaim-disk` removed {size(sum(one.size for one in removed))} from this runner: {listed}."
