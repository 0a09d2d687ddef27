"""Build the Python package, and publish it to an index."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urldefrag, urljoin

import requests
from packaging.utils import canonicalize_name

from scripts.release.commands import ReleaseError, run, tool
from scripts.release.record import Distribution, sha256_of
from scripts.release.sources import Sources

_TIMEOUT: Final = 60.0


def build_distributions(sources: Sources, output: Path) -> tuple[Distribution, ...]:
    """Build the source distribution and from it the wheel into *output*.

    hatchling is that of this Python's environment, whose version is locked; it takes all times from the commit.
    """
    argv = [tool("uv"), "build", "--no-build-isolation", f"--python={sys.executable}", f"--out-dir={output}"]
    run([*argv, str(sources.folder)], cwd=sources.folder, environ={"SOURCE_DATE_EPOCH": str(sources.epoch)})
    (output / ".gitignore").unlink(missing_ok=True)
    files = sorted((*output.glob("*.whl"), *output.glob("*.tar.gz")))
    if len(files) != 2:
        raise ReleaseError(
            f"The build left {[file.name for file in files]}, and a release has a wheel and its sources."
        )
    return tuple(Distribution(file=file.name, sha256=sha256_of(file)) for file in files)


def upload(files: Sequence[Path], index: str) -> None:
    """Upload *files* to the upload address *index*.

    uv signs in by trusted publishing in GitHub's workflows that may have OIDC tokens; elsewhere with
    UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD, or UV_PUBLISH_TOKEN.

    Raises:
        ReleaseError: the index refuses.
    """
    run([tool("uv"), "publish", f"--publish-url={index}", *map(str, files)], cwd=files[0].parent)


def check_index(distribution: Distribution, simple: str) -> None:
    """Raise unless the index serves the very file of *distribution*.

    Args:
        distribution: the file.
        simple: the index as installers read it, such as ``https://pypi.org/simple``.

    Raises:
        ReleaseError: it is missing, or has other bytes.
    """
    name = canonicalize_name(distribution.file.partition("-")[0])
    page = f"{simple.rstrip('/')}/{name}/"
    links = find_links(_get(page).text, page)
    if distribution.file not in links:
        raise ReleaseError(f"{page} has no {distribution.file}. Publish it: python -m scripts.release publish")
    found = hashlib.sha256(_get(links[distribution.file]).content).hexdigest()
    if found != distribution.sha256:
        raise ReleaseError(f"{page} has another {distribution.file}: {found}, not {distribution.sha256}.")


def find_links(page: str, address: str) -> dict[str, str]:
    """Return file → address of the links on a page of the simple API (PEP 503)."""
    reader = _Links()
    reader.feed(page)
    links = (urldefrag(urljoin(address, unescape(link))).url for link in reader.found)
    return {re.sub(r".*/", "", link): link for link in links}


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _get(address: str) -> requests.Response:
    try:
        answer = requests.get(address, timeout=_TIMEOUT, headers={"Accept": "text/html, */*;q=0.1"})
        answer.raise_for_status()
    except requests.RequestException as error:
        raise ReleaseError(f"{address} cannot be read: {error}. Is it the address that installers use?") from error
    return answer
