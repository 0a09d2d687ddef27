"""The provenance of an image, one of its referrers: what went into its build.

It is an in-toto statement with the predicate of SLSA, version 1 (https://slsa.dev/spec/v1.1/provenance), written by the
build itself, so that an image that was found keeps the one that it has.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from typing import Any, Final

from aml_train.core.references import is_digest
from aml_train.core.version import __version__
from aml_train.image.context import ImageContext
from aml_train.image.registry.manifest import Manifest
from aml_train.image.registry.referrers import attach_document
from aml_train.image.spec import FORMAT, ImageSpec

STATEMENT: Final = "https://in-toto.io/Statement/v1"
IN_TOTO: Final = "application/vnd.in-toto+json"
SLSA_PROVENANCE: Final = "https://slsa.dev/provenance/v1"


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
                "buildType": "https://aml-train.org/image-build/v1",
                "externalParameters": {
                    key: value for key, value in parameters.items() if value not in (None, {}, [])
                },
                "resolvedDependencies": [*_base(spec), *_commit(commit), *_inputs(spec)],
            },
            "runDetails": {
                "builder": {
                    "id": f"https://aml-train.org/builder/{builder.partition(' ')[0]}",
                    "version": {"aml-train": __version__, "builder": builder},
                },
                "metadata": {"startedOn": started, "finishedOn": finished},
            },
        },
    }


def attach_provenance(ctx: ImageContext, image: Manifest, started: float, *, builder: str) -> None:
    """Keep the provenance of an image that this run built with it.

    Args:
        ctx: the run.
        image: the manifest, which the registry has in the run's repository.
        started: when the build began, by the monotonic clock.
        builder: what executed it, as in :func:`provenance`.

    Raises:
        ImageError: the registry refuses.
    """
    stated = provenance(
        ctx.spec,
        image.digest,
        commit=ctx.commit,
        name=f"{ctx.location.job_name}/{ctx.repository}",
        builder=builder,
        started=_iso(time.time() - (time.monotonic() - started)),
        finished=_iso(time.time()),
    )
    attach_document(
        ctx.registry,
        ctx.own,
        image,
        artifact_type=IN_TOTO,
        content=json.dumps(stated, sort_keys=True).encode(),
        annotations={"in-toto.io/predicate-type": SLSA_PROVENANCE},
    )


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


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")
