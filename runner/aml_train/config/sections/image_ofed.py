"""``image.ofed``: the user-space part of the InfiniBand drivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from aml_train.config.section import CheckedTree, key, make, record, section
from aml_train.config.yaml.shapes import Choice, Text
from aml_train.config.yaml.structures import Either

OfedSource = Literal["mlnx_ofed", "doca", "distro", "auto"]
_SOURCES: Final = Choice(words=("mlnx_ofed", "doca", "distro", "auto", "none"))


@section
class OfedConfig:
    """``image.ofed``; ``none`` makes no OfedConfig. *where* is ``file:line``.

    None stands for: NVIDIA's own address (*url*), the table of known releases (*sha256*), and the base's distribution (*os*).
    """

    source: OfedSource = key(
        _SOURCES,
        "`mlnx_ofed` (NVIDIA's tarball), `doca` (NVIDIA's package `doca-host`), `distro` (the "
        "distribution's rdma-core), `auto` (the base's own drivers, or `distro` if it has none) or `none`.",
    )
    version: str | None = key(
        Text(
            noun='a version such as "5.8-2.0.3.0" or "3.2.1"',
            pattern=r"[0-9]+(?:\.[0-9]+)+(?:-[0-9]+(?:\.[0-9]+)*){0,2}",
            remedy="name the release that it means today: docs/image.md lists those with a known SHA-256",
        ),
        "Release, for `mlnx_ofed` and `doca`; for `doca` also a build such as `3.2.1-044000-25.10`. `latest` and LTS names are refused: they move.",
        default=None,
    )
    url: str | None = key(
        Text(noun="an address, such as `https://mirror.example.com/ofed.tgz`", pattern=r"https?://[^\s@]+"),
        "Address of the tarball, or for `doca` of the package (`….deb`), instead of NVIDIA's own.",
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
    where: str = "image.ofed"


OFED: Final = Either(
    noun="a mapping with `source`, or `auto`, `distro` or `none` alone",
    scalar=_SOURCES,
    keys=record(OfedConfig, noun="a mapping with `source`"),
    short="source",
)


def ofed_config(image: CheckedTree, given: Mapping[str, Any]) -> OfedConfig | None:
    """Make ``image.ofed`` of its checked value; None for no drivers."""
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
    url = given.get("url", "")
    if source == "doca" and url and not url.endswith(".deb"):
        what, remedy = "`image.ofed.url` names no package", "give the address of a `doca-host` package: `….deb`"
        image.fault(what, "ofed", "url", why="its SHA-256 is checked", remedy=remedy)
    return make(OfedConfig, given, where=image.mark("ofed").where)
