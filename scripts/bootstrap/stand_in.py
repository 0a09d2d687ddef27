"""A substitute for ``python:3.11-slim-bookworm``, for machines without a registry.

Such machines reach Debian's archive, but no image registry.

It is Debian bookworm with Debian's own Python 3.11 under the names the official image uses. Label
``org.aml-train.stand-in=1`` distinguishes it from the official one.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.bootstrap.commands import CommandFailedError, Shell

LABEL = "org.aml-train.stand-in=1"
SUITE = "bookworm"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
_PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
_CA_BUNDLE = "etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, kw_only=True)
class AptSource:
    """One archive of an apt source list."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def find_mirror(sources: Iterator[AptSource]) -> str:
    """Return this machine's Debian archive: has ``main``, path ends in /debian."""
    for source in sources:
        uri = source.uri.rstrip("/")
        if "main" in source.components and uri.endswith("/debian") and uri.startswith(("http://", "https://")):
            return uri
    return DEFAULT_MIRROR


def read_sources(folder: Path) -> Iterator[AptSource]:
    """Read apt's sources below *folder* (``/etc/apt``), one-line and deb822 style."""
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))):
        if path.is_file() and path.suffix in {".list", ".sources"}:
            parse = parse_deb822 if path.suffix == ".sources" else parse_one_line
            yield from parse(path.read_text(encoding="utf-8", errors="replace"))


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Read lines such as ``deb [signed-by=…] http://HOST/debian bookworm main``."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] != "deb":
            continue
        words = words[1:]
        if words and words[0].startswith("["):
            closing = next((index for index, word in enumerate(words) if word.endswith("]")), len(words))
            words = words[closing + 1 :]
        if len(words) >= 2:
            yield AptSource(uri=words[0], suites=(words[1],), components=tuple(words[2:]))


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Read paragraphs of ``Types:``, ``URIs:``, ``Suites:`` and ``Components:``."""
    for paragraph in text.split("\n\n"):
        fields = dict[str, tuple[str, ...]]()
        for line in paragraph.splitlines():
            name, colon, value = line.partition(":")
            if colon and not line.startswith(("#", " ")):
                fields[name.strip().lower()] = tuple(value.split())
        if "deb" in fields.get("types", ()) and fields.get("enabled", ("yes",)) != ("no",):
            for uri in fields.get("uris", ()):
                yield AptSource(uri=uri, suites=fields.get("suites", ()), components=fields.get("components", ()))


def import_stand_in(shell: Shell, docker: str, reference: str) -> None:
    """Make the substitute under the name *reference*. It takes about a minute."""
    mirror = find_mirror(read_sources(Path("/etc/apt")))
    with tempfile.TemporaryDirectory(prefix="aml-train-stand-in-") as folder:
        system = Path(folder) / "root"
        shell.run_patiently(
            ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, str(system), mirror]
        )
        _adapt(system)
        _import(shell, docker, system, reference)


def _adapt(system: Path) -> None:
    for name, goal in (("python", "python3"), ("python3", "python3"), ("pip", "pip3"), ("pip3", "pip3")):
        link = system / "usr/local/bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"/usr/bin/{goal}")
    for marker in (system / "usr/lib").glob("python3.*/EXTERNALLY-MANAGED"):
        marker.unlink()
    # If a proxy re-signs TLS, its CA is among the machine's; pip in builds needs it as well.
    bundle = Path("/") / _CA_BUNDLE
    if bundle.exists():
        shutil.copyfile(bundle, system / _CA_BUNDLE)
    (system / "etc/pip.conf").write_text(f"[global]\ncert = /{_CA_BUNDLE}\n", encoding="utf-8")
    for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(system / folder, ignore_errors=True)
        (system / folder / "partial").mkdir(parents=True)


def _import(shell: Shell, docker: str, system: Path, reference: str) -> None:
    tar = ["tar", "--create", "--numeric-owner", "--directory", str(system), "."]
    changes = ('CMD ["python3"]', "ENV LANG=C.UTF-8", f"LABEL {LABEL}")
    command = [docker, "import", *(word for change in changes for word in ("--change", change)), "-", reference]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
        shell.run(command, stdin=packing.stdout)
    if packing.returncode != 0:
        raise CommandFailedError(tar, f"exit code {packing.returncode}", "", shell.log)
