"""``image.ofed``: the user-space part of the InfiniBand drivers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from aml_train.config.section import ImageTree, key, make, record, section
from aml_train.config.yaml.nodes import Faults, Mark
from aml_train.config.yaml.shapes import BAD, Choice, Text
from aml_train.config.yaml.structures import Either

OfedSource = Literal["mlnx_ofed", "doca", "distro", "auto"]
_SOURCES: Final = Choice(words=("mlnx_ofed", "doca", "distro", "auto", "none"))

# NVIDIA's server has the folders latest, latest-2.9-LTS, latest-3.2-LTS and lts/latest next to those of releases.
_MOVING: Final = re.compile(r"(?:latest|lts)(?:-[\w.]+)*", re.IGNORECASE)
_MOVES: Final = "NVIDIA replaces what it names, so one content address would name different images"


@dataclass(frozen=True, kw_only=True)
class _Version(Text):
    """A release, and not a name that moves."""

    def check_text(self, text: str, mark: Mark, label: str, faults: Faults) -> Any:
        if not _MOVING.fullmatch(text):
            return super().check_text(text, mark, label, faults)
        remedy = (
            'name the release that it means today, such as "3.2.3"; docs/image.md lists those with a known SHA-256'
        )
        faults.add(mark, f"{label} `{text}` is no release", why=_MOVES, remedy=remedy)
        return BAD


def _stays(url: str) -> None:
    """Raise ValueError if a part of the path moves; a checked package may be anywhere."""
    moving = next((part for part in url.split("/") if _MOVING.fullmatch(part)), None)
    if moving is not None and not url.endswith((".deb", ".tgz")):
        raise ValueError(f"`{moving}` in it is no release: {_MOVES}; name the release in its place")


@section
class OfedConfig:
    """``image.ofed``; ``none`` makes no OfedConfig. *where* is ``file:line``.

    None stands for: NVIDIA's own address (*url*), the table of known releases (*sha256*), the base's distribution (*os*),
    and the known key (*key_fingerprint*).
    """

    source: OfedSource = key(
        _SOURCES,
        "`mlnx_ofed` (NVIDIA's tarball), `doca` (NVIDIA's package `doca-host`, or its apt repository), `distro` (the "
        "distribution's rdma-core), `auto` (the base's own drivers, or `distro` if it has none) or `none`.",
    )
    version: str | None = key(
        _Version(
            noun='a version such as "5.8-2.0.3.0" or "3.2.1"',
            pattern=r"[0-9]+(?:\.[0-9]+)+(?:-[0-9]+(?:\.[0-9]+)*){0,2}",
        ),
        "Release, for `mlnx_ofed` and `doca`; for `doca` also a build such as `3.2.1-044000-25.10`. `latest` and LTS names are refused: they move.",
        default=None,
    )
    url: str | None = key(
        Text(
            noun="an address, such as `https://mirror.example.com/ofed.tgz`", pattern=r"https?://[^\s@]+", rule=_stays
        ),
        "Address of the tarball, or for `doca` of the package (`….deb`) or the repository, instead of NVIDIA's own.",
        default=None,
    )
    sha256: str | None = key(
        Text(noun="64 hexadecimal digits, in lower case", pattern="[0-9a-f]{64}"),
        "SHA-256 of the tarball or of `doca-host`; needed if docs/image.md does not list the release.",
        default=None,
    )
    os: str | None = key(
        Text(noun="a distribution as NVIDIA names it, such as `ubuntu22.04`", pattern=r"[a-z]+[0-9]+(?:\.[0-9]+)*"),
        "Distribution of the base; read from the base by default.",
        default=None,
    )
    key_fingerprint: str | None = key(
        Text(noun="40 hexadecimal digits", pattern="[0-9A-Fa-f]{40}", convert=str.upper),
        "Fingerprint of the key that signs the `doca` repository, if it is not the one in docs/image.md; with it, the "
        "repository is used even if the package's SHA-256 is known.",
        default=None,
    )
    where: str = "image.ofed"


OFED: Final = Either(
    noun="a mapping with `source`, or `auto`, `distro` or `none` alone",
    scalar=_SOURCES,
    keys=record(OfedConfig, noun="a mapping with `source`"),
)


def ofed_config(image: ImageTree, value: Any) -> OfedConfig | None:
    """Make ``image.ofed`` of its checked value; None for no drivers."""
    given = {"source": value} if isinstance(value, str) else value or {}
    source = given.get("source", "none")
    if source == "none":
        return None
    if source in ("distro", "auto"):
        why = "the distribution's own packages are taken" if source == "distro" else "the base decides"
        for name in given.keys() - {"source", "os"}:
            what = f"`image.ofed.{name}` has no meaning with the source `{source}`"
            image.fault(what, "ofed", name, why=why, remedy="delete the key")
    elif not image.has("ofed", "version"):
        example = "5.8-2.0.3.0" if source == "mlnx_ofed" else "3.2.1"
        what, remedy = f"`image.ofed.version` is missing, which `{source}` needs", f'give it: version: "{example}"'
        image.fault(what, "ofed", remedy=remedy)
    if source == "mlnx_ofed" and "key-fingerprint" in given:
        what = "`image.ofed.key-fingerprint` has no meaning with the source `mlnx_ofed`"
        image.fault(what, "ofed", "key-fingerprint", why="it belongs to `doca`", remedy="delete the key")
    if source == "doca":
        _check_doca(image, given)
    return make(OfedConfig, given, where=image.mark("ofed").where)


def _check_doca(image: ImageTree, given: dict[str, Any]) -> None:
    """Report keys of a package next to keys of a repository."""
    if "sha256" not in given:
        return
    if "key-fingerprint" in given:
        what = "`image.ofed.sha256` and `key-fingerprint` exclude each other"
        why = "a package is checked by its SHA-256, a repository by its key"
        image.fault(what, "ofed", "sha256", why=why, remedy="delete one of them")
    elif "url" in given and not given["url"].endswith(".deb"):
        what = "`image.ofed.sha256` has no meaning for a repository"
        image.fault(
            what, "ofed", "sha256", why="it is that of a `.deb`", remedy="give the package's `url`, or delete the key"
        )
