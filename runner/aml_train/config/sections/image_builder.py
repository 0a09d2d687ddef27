"""``image.builder``: what builds the image and runs its tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from aml_train.config.section import PATH, CheckedTree, key, make, record, section
from aml_train.config.yaml.shapes import Choice, Duration, Text
from aml_train.config.yaml.source import absolute
from aml_train.config.yaml.structures import Either

BuilderKind = Literal["local", "remote", "acr"]
_KINDS: Final = Choice(words=("local", "remote", "acr"))
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
#: Keys and the kinds that they belong to.
_OF: Final = {
    "engine": ("remote",),
    "buildx": ("remote",),
    "tls": ("remote",),
    "agent-pool": ("acr",),
    "timeout": ("acr",),
}
#: Seconds that a run of ACR Tasks may take (azure-mgmt-containerregistry 10.3.0, v2019_06_01_preview, ``DockerBuildRequest.timeout``).
_LONGEST: Final = 28_800.0
_PLACES: Final = ("engine", "buildx")


@section
class BuilderConfig:
    """``image.builder``. *where* is ``file:line``.

    Attributes:
        tls: absolute; None for Docker's own folder of certificates.
        timeout: seconds that a build of a service may take; None for the pipeline's own bound.
    """

    kind: BuilderKind = key(
        _KINDS,
        "`local` (the default): this machine's engine; `remote`: another engine, or a builder of buildx; `acr`: ACR Tasks of the "
        "target's registry.",
        default="local",
    )
    engine: str | None = key(
        Text(
            noun="an engine's address, such as `ssh://build@host` or `tcp://host:2376`",
            pattern=r"(?:ssh|tcp)://[^\s/:@]+(?:@[^\s/:@]+)?(?::[0-9]{1,5})?/?|unix:///\S+",
        ),
        "Address of the engine, for `remote`: `ssh://USER@HOST`, `tcp://HOST:2376` (by TLS), or `unix://PATH`.",
        default=None,
    )
    buildx: str | None = key(
        Text(noun="the name of a builder", pattern=_NAME),
        "Builder of buildx (`docker buildx ls`), for `remote`: it pushes, and the tests run on this machine's engine.",
        default=None,
    )
    tls: Path | None = key(
        PATH,
        "Folder with ca.pem, cert.pem and key.pem for `tcp://`; `DOCKER_CERT_PATH` or Docker's own folder by default.",
        default=None,
    )
    agent_pool: str | None = key(
        Text(noun="the name of an agent pool", pattern=r"[A-Za-z0-9-]{3,20}"),
        "Agent pool of the registry that builds, for `acr`; shared agents by default.",
        default=None,
    )
    timeout: float | None = key(
        Duration(),
        "How long a build of `acr` may take, up to 8 hours; `2h` by default.",
        default=None,
    )
    where: str = "image.builder"

    @property
    def has_engine(self) -> bool:
        """Whether a Docker engine builds, this machine's or another one."""
        return self.kind in ("local", "remote") and self.buildx is None

    @property
    def names_engine(self) -> bool:
        """Whether another engine than this machine's builds."""
        return self.kind == "remote" and self.buildx is None

    @property
    def is_service(self) -> bool:
        """Whether a service builds and tests, and no engine."""
        return self.kind == "acr"


BUILDER: Final = Either(
    noun="`local` or `acr`, or a mapping with `kind`",
    scalar=_KINDS,
    keys=record(BuilderConfig, noun="a mapping with `kind`"),
    short="kind",
)


def builder_config(image: CheckedTree, given: Mapping[str, Any]) -> BuilderConfig:
    """Make ``image.builder`` of its checked value; report keys of another kind."""
    where = image.mark("builder").where if image.has("builder") else "image.builder"
    kind = given.get("kind", "local")
    for name in sorted(given.keys() & _OF.keys()):
        if kind not in _OF[name]:
            what = f"`image.builder.{name}` has no meaning with the kind `{kind}`"
            owners = " or ".join(f"`{one}`" for one in _OF[name])
            image.fault(
                what, "builder", name, why=f"it belongs to {owners}", remedy="delete the key, or change `kind`"
            )
    named = [name for name in _PLACES if image.has("builder", name)]
    if kind == "remote" and len(named) != 1:
        what = "`image.builder` of the kind `remote` needs either `engine` or `buildx`"
        image.fault(what, "builder", remedy="write such as: builder: {kind: remote, engine: ssh://build@host}")
    if "tls" in given and not str(given.get("engine", "")).startswith("tcp://"):
        image.fault("`image.builder.tls` belongs to an engine at `tcp://`", "builder", "tls", remedy="delete the key")
    if kind == "acr" and given.get("timeout", 0) > _LONGEST:
        image.fault("`image.builder.timeout` is more than 8 hours, which ACR Tasks allow", "builder", "timeout")
    folder = absolute(image.directory / given["tls"]) if "tls" in given else None
    return make(BuilderConfig, given, tls=folder, where=where)
