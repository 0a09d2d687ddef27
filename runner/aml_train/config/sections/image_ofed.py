"""``image.ofed``: the user-space part of the InfiniBand drivers."""

from __future__ import annotations

from typing import Any, Final, Literal

from aml_train.config.section import key, make, record, section
from aml_train.config.sections.image_paths import ImageTree
from aml_train.config.yaml.shapes import Choice, Text
from aml_train.config.yaml.structures import Either

OfedSource = Literal["mlnx_ofed", "doca", "distro"]
_SOURCES: Final = Choice(words=("mlnx_ofed", "doca", "distro", "none"))


@section
class OfedConfig:
    """``image.ofed``; ``none`` makes no OfedConfig. *where* is ``file:line``.

    None stands for: NVIDIA's own address (*url*), the table of known releases (*sha256*), the base's distribution (*os*),
    and the known key (*key_fingerprint*).
    """

    source: OfedSource = key(
        _SOURCES,
        "`mlnx_ofed` (NVIDIA's tarball), `doca` (NVIDIA's apt repository), `distro` (the distribution's rdma-core) or "
        "`none`.",
    )
    version: str | None = key(
        Text(
            noun='a version such as "5.8-2.0.3.0" or "2.9.1"', pattern=r"[0-9]+(?:\.[0-9]+)+(?:-[0-9]+(?:\.[0-9]+)+)?"
        ),
        "Version, for `mlnx_ofed` and `doca`.",
        default=None,
    )
    url: str | None = key(
        Text(noun="an address, such as `https://mirror.example.com/ofed.tgz`", pattern=r"https?://[^\s@]+"),
        "Address of the tarball, or of the repository for `doca`, instead of NVIDIA's own.",
        default=None,
    )
    sha256: str | None = key(
        Text(noun="64 hexadecimal digits, in lower case", pattern="[0-9a-f]{64}"),
        "SHA-256 of the tarball; needed if docs/image.md does not list the release.",
        default=None,
    )
    os: str | None = key(
        Text(noun="a distribution as NVIDIA names it, such as `ubuntu22.04`", pattern=r"[a-z]+[0-9]+(?:\.[0-9]+)*"),
        "Distribution of the base; read from the base by default.",
        default=None,
    )
    key_fingerprint: str | None = key(
        Text(noun="40 hexadecimal digits", pattern="[0-9A-Fa-f]{40}", convert=str.upper),
        "Fingerprint of the key that signs the `doca` repository, if it is not the one in docs/image.md.",
        default=None,
    )
    where: str = "image.ofed"


OFED: Final = Either(
    noun="a mapping with `source`, or `distro` or `none` alone",
    scalar=_SOURCES,
    keys=record(OfedConfig, noun="a mapping with `source`"),
)


def ofed_config(image: ImageTree, value: Any) -> OfedConfig | None:
    """Make ``image.ofed`` of its checked value; None for no drivers."""
    given = {"source": value} if isinstance(value, str) else value or {}
    source = given.get("source", "none")
    if source == "none":
        return None
    if source == "distro":
        why = "the distribution's own packages are taken"
        for name in given.keys() - {"source", "os"}:
            what = f"`image.ofed.{name}` has no meaning with the source `distro`"
            image.fault(what, "ofed", name, why=why, remedy="delete the key")
    elif not image.has("ofed", "version"):
        example = "5.8-2.0.3.0" if source == "mlnx_ofed" else "2.9.1"
        what, remedy = f"`image.ofed.version` is missing, which `{source}` needs", f'give it: version: "{example}"'
        image.fault(what, "ofed", remedy=remedy)
    for name, only in (("sha256", "mlnx_ofed"), ("key-fingerprint", "doca")):
        if name in given and source not in (only, "distro"):
            what = f"`image.ofed.{name}` has no meaning with the source `{source}`"
            image.fault(what, "ofed", name, why=f"it belongs to `{only}`", remedy="delete the key")
    return make(OfedConfig, given, where=image.mark("ofed").where)
