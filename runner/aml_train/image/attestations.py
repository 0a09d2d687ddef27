"""The attestations of an image: its provenance and its list of packages, as referrers.

Provenance: an in-toto statement with the predicate of SLSA, version 1 (https://slsa.dev/spec/v1.1/provenance). It says what
went into the build, and is written by the build itself, so that an image that was found keeps the one that it has.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docker.errors import ImageNotFound

from aml_train.core.references import is_digest
from aml_train.core.version import __version__
from aml_train.image.context import ImageContext
from aml_train.image.push import pull_image
from aml_train.image.registry.manifest import Manifest
from aml_train.image.registry.referrers import attach_document, list_referrers
from aml_train.image.sbom import SBOM_TYPES, make_sbom
from aml_train.image.spec import FORMAT, ImageSpec

STATEMENT: Final = "https://in-toto.io/Statement/v1"
IN_TOTO: Final = "application/vnd.in-toto+json"
SLSA_PROVENANCE: Final = "https://slsa.dev/provenance/v1"
#: The types of artefacts that each kind of attestation may have.
ATTESTATION_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "provenance": (IN_TOTO,),
    "sbom": tuple(SBOM_TYPES.values()),
}
BUILD_TYPE: Final = "https://aml-train.org/image-build/v1"


def provenance(
    spec: ImageSpec, digest: str, *, commit: str | None, name: str, builder: str, started: str, finished: str
) -> dict[str, Any]:
    """Return the provenance of the image *digest*, with secrets by name only.

    Args:
        spec: what was built.
        digest: the manifest's.
        commit: of the repository that the build began from; None if it is unknown.
        name: the repository in the registry, with its host.
        builder: what executed the build, such as ``engine 29.1.0``.
        started, finished: when, ISO 8601 in UTC.
    """
    parameters = {
        "address": spec.address,
        "format": FORMAT,
        "platform": spec.platform,
        "base": spec.base.reference.familiar,
        "dockerfile": {"sha256": hashlib.sha256(spec.dockerfile.encode()).hexdigest()},
        "build-args": dict(spec.build_args),
        "target": spec.target,
        "secrets": sorted(spec.secrets),
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": SLSA_PROVENANCE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    key: value for key, value in parameters.items() if value not in (None, {}, [])
                },
                "resolvedDependencies": [*_base(spec), *_commit(commit), *_inputs(spec)],
            },
            "runDetails": {
                "builder": {
                    "id": f"https://aml-train.org/builder/{builder.partition(' ')[0]}",
                    "version": _version(builder),
                },
                "metadata": {"startedOn": started, "finishedOn": finished},
            },
        },
    }


@dataclass(frozen=True, kw_only=True)
class Attestations:
    """The attestations of an image that are not in the registry yet: content by type."""

    statement: bytes | None = None
    sbom: bytes | None = None


def make_attestations(ctx: ImageContext, image: Manifest, started: float, *, builder: str) -> Attestations:
    """Make the attestations of an image that this run built.

    Args:
        ctx: the run.
        image: the candidate's manifest.
        started: when the build began, by the monotonic clock.
        builder: what executed it, as in :func:`provenance`.

    Raises:
        ImageError: the list cannot be made.
    """
    statement = None
    if ctx.spec.provenance:
        stated = provenance(
            ctx.spec,
            image.digest,
            commit=ctx.commit,
            name=f"{ctx.location.job_name}/{ctx.repository}",
            builder=builder,
            started=_iso(time.time() - (time.monotonic() - started)),
            finished=_iso(time.time()),
        )
        statement = json.dumps(stated, sort_keys=True).encode()
    sbom = _make_sbom(ctx, image, _candidate_id(ctx, image)) if ctx.spec.sbom is not None else None
    return Attestations(statement=statement, sbom=sbom)


def keep_attestations(ctx: ImageContext, image: Manifest, attestations: Attestations) -> None:
    """Keep the attestations with a released image.

    Raises:
        ImageError: the registry refuses.
    """
    if attestations.statement is not None:
        annotations = {"in-toto.io/predicate-type": SLSA_PROVENANCE}
        attach_document(
            ctx.registry,
            ctx.own,
            image,
            artifact_type=IN_TOTO,
            content=attestations.statement,
            annotations=annotations,
        )
    if attestations.sbom is not None and ctx.spec.sbom is not None:
        kind = SBOM_TYPES[ctx.spec.sbom.format]
        attach_document(ctx.registry, ctx.own, image, artifact_type=kind, content=attestations.sbom)


def check_found(ctx: ImageContext, image: Manifest) -> None:
    """Have the list of packages of an image that the registry has.

    A provenance is written by a build: an image that was found has the one that its build wrote, or none.

    Raises:
        ImageError: the list cannot be made.
    """
    sbom = ctx.spec.sbom
    if sbom is None:
        return
    kind = SBOM_TYPES[sbom.format]
    found = any(list_referrers(ctx.registry, place, image.digest, artifact_type=kind) for place in ctx.places)
    if not found and ctx.engine is None:
        ctx.note(
            "The image has no list of packages: it was released without one, and this builder has no engine that makes it."
        )
    elif not found:
        keep_attestations(ctx, image, Attestations(sbom=_make_sbom(ctx, image, ctx.pull(image))))


def _make_sbom(ctx: ImageContext, image: Manifest, image_id: str) -> bytes:
    if ctx.spec.sbom is None:
        raise ValueError("no list of packages is configured")
    with ctx.stage("image", "list the packages of the image") as summary:
        content = make_sbom(
            ctx.docker,
            image_id,
            ctx.spec.sbom,
            environ=ctx.cli().environ,
            name=ctx.repository,
            version=image.digest,
        )
        summary.append(f"{max(len(content) >> 10, 1)} KiB of {ctx.spec.sbom.format}")
    return content


def _candidate_id(ctx: ImageContext, image: Manifest) -> str:
    """Return a candidate's id in the engine; one from elsewhere is pulled."""

    for image_id in filter(None, (image.config_digest, image.digest)):
        try:
            return str(ctx.docker.images.get(image_id).id)
        except ImageNotFound:
            continue
    name = f"{ctx.location.push_name}/{ctx.candidates}"
    return pull_image(ctx.docker, name, image.digest, auth=ctx.location.credentials(), listener=ctx.listener)


def _base(spec: ImageSpec) -> list[dict[str, Any]]:
    identity = spec.base.identity
    uri = f"docker://{spec.base.reference.registry}/{spec.base.reference.repository}"
    return [_dependency(uri, identity.removeprefix("sha256:"))] if is_digest(identity) else []


def _commit(commit: str | None) -> list[dict[str, Any]]:
    if commit is None:
        return []
    digest = {"gitCommit": commit.removesuffix("-dirty")}
    found: dict[str, Any] = {"uri": "git+commit", "digest": digest}
    return [found | ({"annotations": {"dirty": True}} if commit.endswith("-dirty") else {})]


def _inputs(spec: ImageSpec) -> list[dict[str, Any]]:
    files = [_dependency(path, hashlib.sha256(content).hexdigest()) for path, content in sorted(spec.files.items())]
    return [*files, *(_dependency(path or ".", tree.digest()) for path, tree in sorted(spec.trees.items()))]


def _dependency(uri: str, digest: str) -> dict[str, Any]:
    return {"uri": uri, "digest": {"sha256": digest}}


def _version(builder: str) -> dict[str, str]:
    return {"aml-train": __version__, "builder": builder}


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")
