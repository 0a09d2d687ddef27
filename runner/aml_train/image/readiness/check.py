"""Probe an image in a container, keep its facts, and judge them at each run: is it ready for AzureML and InfiniBand?

The facts are kept with the image, not the verdict: rules and the user's exceptions may change without the image being looked into
again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections import deque
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import requests
from docker.errors import APIError

from aml_train.core.answers import decode
from aml_train.core.checks import Finding, Level
from aml_train.core.docker import fetch_file, pack_files, remove_container
from aml_train.core.errors import ImageError
from aml_train.core.events import Event, LogLine
from aml_train.core.threads import CancelToken, temporary
from aml_train.image.leftovers import container_labels
from aml_train.image.readiness.facts import Facts, check_facts
from aml_train.image.readiness.rules import judge
from aml_train.image.registry.client import Registry
from aml_train.image.registry.referrers import load_document, store_document
from aml_train.image.spec import CheckPolicy
from aml_train.image.testing.container import run_container

if TYPE_CHECKING:
    from docker import DockerClient

_ORDER: Final[tuple[Level, ...]] = ("error", "warning", "info")


@functools.cache
def probe_script() -> bytes:
    """Return the text of the probe that runs in the image."""
    return files("aml_train.image.readiness").joinpath("probe.py").read_bytes()


@functools.cache
def probe_key() -> str:
    """Return this probe's name, 16 hexadecimal digits: facts of others do not count."""
    return hashlib.sha256(probe_script()).hexdigest()[:16]


def judge_facts(facts: Facts, policy: CheckPolicy) -> tuple[Finding, ...]:
    """Return what there is to say of an image, the worst first."""
    found = [
        dataclasses.replace(finding, ignored=finding.check in policy.ignore and finding.level != "info")
        for finding in judge(facts, policy)
    ]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.counts_as)))


def readiness_error(findings: Sequence[Finding]) -> ImageError | None:
    """Return the error that *findings* mean, or None where the image is ready."""
    errors = [finding for finding in findings if finding.counts_as == "error"]
    if not errors:
        return None
    listed = "".join(f"\n  {finding}" for finding in errors)
    names = ", ".join(dict.fromkeys(finding.check for finding in errors))
    return ImageError(
        f"the image is not ready for AzureML: {len(errors)} {'check fails' if len(errors) == 1 else 'checks fail'}{listed}",
        hint=f"To allow it all the same, add to aml-train.yml: `image: {{checks: {{ignore: [{names}]}}}}`.",
    )


def summary(findings: Sequence[Finding]) -> str:
    """Return in a few words what was found."""
    counts = {level: sum(finding.counts_as == level for finding in findings) for level in _ORDER}
    words = [
        f"{counts[level]} {level}{'s' if counts[level] != 1 else ''}"
        for level in ("error", "warning")
        if counts[level]
    ]
    return ", ".join(words) or "ready"


FACTS_TYPE: Final = "application/vnd.aml-train.image-facts.v1+json"
_HINT: Final = "Remove that tag from the registry; the image is then looked into again."


def facts_tag(digest: str) -> str:
    """Return the tag of what this version's probe found in the image *digest*."""
    return f"facts-{digest.removeprefix('sha256:')[:40]}-{probe_key()}"


def store_facts(registry: Registry, repository: str, digest: str, facts: Facts) -> None:
    """Keep what was found in the image of manifest *digest*."""
    content = json.dumps({"digest": digest, "facts": facts}, sort_keys=True).encode()
    store_document(registry, repository, facts_tag(digest), media_type=FACTS_TYPE, content=content, subject=digest)


def load_facts(registry: Registry, repository: str, digest: str) -> Facts | None:
    """Return the facts of this version's probe for an image, or None without them.

    Raises:
        ImageError: if there is something else under the tag.
    """
    tag = facts_tag(digest)
    content = load_document(registry, repository, tag, media_type=FACTS_TYPE, noun="record of facts", hint=_HINT)
    if content is None:
        return None
    where = f"the record of facts {registry.host}/{repository}:{tag}"
    try:
        document = decode(content)
        if document["digest"] != digest:
            raise ImageError(f"{where} is about another image", hint=_HINT)
        check_facts(document["facts"])
        facts: Facts = document["facts"]
    except (KeyError, TypeError, ValueError) as error:
        raise ImageError(f"{where} is damaged: {error}", hint=_HINT) from error
    return facts


def installed_packages(facts: Facts) -> dict[str, str]:
    """Return the installed versions: ``pip:name`` or ``apt:name`` (rpm, too) → version. Pure."""
    kinds = {"pip": "python_packages", "apt": "system_packages"}
    return {
        f"{kind}:{name}": version
        for kind, key in kinds.items()
        for name, version in sorted(facts.get(key, {}).items())
    }


_TIMEOUT: Final = 600.0
"""Seconds that the probe may take; imports from a cold disk are slow."""
CHECKS_FOLDER: Final = "aml-train-checks"
_LEASE: Final = 600.0
_LIMIT: Final = 8 << 20
_TAIL: Final = 20
_PLATFORM: Final = (
    "The image is for another platform than the engine's: set image.platform, or use a base for this one."
)

NO_RESULT: Final = "The lines above say why; a Python that starts in the image is needed, or none at all."

# The first command that is a Python of 3.6 or newer runs the probe. Without one, a shell reports a few facts.
CHECKS_SCRIPT: Final = r"""
cd / || exit 1
for name in python python3; do
    python=$(command -v "$name") || continue
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1; then
        exec "$python" -B /aml-train-checks/probe.py /aml-train-checks/facts.json
    fi
done
bash=null
command -v bash >/dev/null && bash='"bash"'
printf '{"format": 1, "bash": %s, "python": null}' "$bash" >/aml-train-checks/facts.json
"""


def probe_image(engine: DockerClient, image: str, *, token: CancelToken | None = None) -> Facts:
    """Return an image's facts; it gets no network, and its entrypoint is left out.

    Raises:
        WorkCancelledError: if *token* was cancelled meanwhile.
        ImageError: if the image cannot be run or the probe came to no result: that is never taken for "ready".
    """

    engine.images.get(image)
    create = partial(
        engine.containers.create,
        image,
        entrypoint=["/bin/sh", "-c", CHECKS_SCRIPT],
        command=[],
        labels=container_labels(engine, "checks", _TIMEOUT + _LEASE),
        network_mode="none",
    )
    lines: deque[Event] = deque(maxlen=_TAIL)
    with (
        temporary(create, remove_container) as container,
        (token or CancelToken()).on_cancel(partial(remove_container, container)),
    ):
        container.put_archive("/", pack_files({"probe.py": probe_script()}, folder=CHECKS_FOLDER))
        try:
            end = run_container(container, _TIMEOUT, engine, lines.append, _refused)
        except requests.RequestException as error:
            raise ImageError(
                f"the Docker engine went away during the checks of the image: {error}", hint="Run again."
            ) from error
        if end.timed_out:
            raise ImageError(
                f"the checks of the image took longer than {_TIMEOUT:.0f} seconds",
                hint="Something in the image hangs when it is imported or loaded; run `aml-train image check IMAGE` to see whether it stays so.",
            )
        try:
            content = fetch_file(container, f"/{CHECKS_FOLDER}/facts.json", limit=_LIMIT)
        except ValueError as error:
            raise ImageError(f"the checks of the image came to no result: {error}") from error
    if content is None:
        shown = "".join(f"\n  {one.text}" for one in lines if isinstance(one, LogLine))
        raise ImageError(
            f"the checks of the image came to no result (exit code {end.exit_code}){shown}",
            hint=_hint(shown, NO_RESULT),
        )
    return parse_facts(content)


def _refused(error: APIError) -> ImageError:
    reason = str(error.explanation or error)
    return ImageError(f"the image cannot be run: {reason}", hint=_hint(reason, None))


def _hint(said: str, other: str | None) -> str | None:
    return _PLATFORM if "exec format error" in said.lower() else other


def parse_facts(content: bytes) -> Facts:
    """Read what the probe wrote.

    Raises:
        ImageError: it is not that; an image may write anything.
    """
    try:
        facts: Facts = decode(content)
        check_facts(facts)
    except ValueError as error:
        raise ImageError(f"the checks of the image wrote a damaged result: {error}") from error
    return facts
