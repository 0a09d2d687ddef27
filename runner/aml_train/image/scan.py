"""The gate of known vulnerabilities: a scanner reads an image's list of packages.

The scanner is grype, or a program that writes the same JSON (https://github.com/anchore/grype): its database and its
settings are its own. It gets the list on its standard input and no credentials.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.config.sections.image import ScanConfig
from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import ImageError

_SEVERITIES: Final = ("negligible", "low", "medium", "high", "critical")
_TIMEOUT: Final = 900.0
_MOST_NAMED: Final = 10
_VARIABLES: Final = (
    "PATH",
    "HOME",
    "TMPDIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "XDG_CACHE_HOME",
)


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known vulnerability of a package."""

    id: str
    severity: str
    package: str

    def __str__(self) -> str:
        return f"{self.id} ({self.severity}): {self.package}"


def scan_sbom(content: bytes, scan: ScanConfig, *, environ: Mapping[str, str]) -> str:
    """Scan a list of packages; return a summary.

    Raises:
        ImageError: a vulnerability has the severity that fails, or the scanner fails.
    """
    program = shutil.which(scan.command, path=environ.get("PATH"))
    if program is None:
        raise ImageError(
            f"`image.scan` needs the program {scan.command}, which is not installed here.",
            hint="Install grype (https://github.com/anchore/grype), or name another scanner: `image.scan.command`.",
        )
    kept = {name: value for name, value in environ.items() if name in _VARIABLES or name.startswith("GRYPE_")}
    try:
        done = subprocess.run(
            [program, "--output", "json"], input=content, capture_output=True, env=kept, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"the scanner {scan.command} did not end well: {type(error).__name__}") from error
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        raise ImageError(f"the scanner {scan.command} ended with {done.returncode}: {words}")
    return judge(read_matches(done.stdout, scan.command), scan)


def read_matches(content: bytes, scanner: str) -> list[Match]:
    """Return the vulnerabilities that a scanner wrote.

    Raises:
        ImageError: it is not grype's JSON.
    """

    def fail(problem: str) -> ImageError:
        return ImageError(f"the result of the scanner {scanner} {problem}")

    try:
        document = Answer(decode(content), fail)
    except UndecodableError as error:
        raise fail(str(error)) from error
    if not document.has("matches"):
        raise fail("has no `matches`, as grype writes them")
    return [
        Match(
            id=one.text("vulnerability.id"),
            severity=(one.optional_text("vulnerability.severity") or "unknown").lower(),
            package=f"{one.text('artifact.name')} {one.optional_text('artifact.version') or ''}".strip(),
        )
        for one in document.each("matches")
    ]


def judge(matches: Sequence[Match], scan: ScanConfig) -> str:
    """Return a summary; raise ImageError for a severity that fails."""
    least = _SEVERITIES.index(scan.fail_on)
    bad = sorted(
        (one for one in matches if one.severity in _SEVERITIES[least:]),
        key=lambda one: (-_SEVERITIES.index(one.severity), one.package),
    )
    if bad:
        more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
        named = "; ".join(map(str, bad[:_MOST_NAMED]))
        raise ImageError(
            f"the image has known vulnerabilities of severity {scan.fail_on} or above: {named}{more}",
            hint="Update these packages or the base. Nothing was released.",
        )
    return f"{len(matches)} known vulnerabilities, none of severity {scan.fail_on} or above"
