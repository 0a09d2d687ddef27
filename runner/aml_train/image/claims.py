"""The agreement of concurrent runs on one digest for a content address.

Two runs that build the same address at the same moment have different digests, and each would train in its own. A registry
cannot decide between them: its tags are overwritten without a condition. A claim is decided by a service that can: see decision 17.
"""

from __future__ import annotations

from dataclasses import dataclass

from aml_train.core.errors import ImageError, ServiceError
from aml_train.image.completeness import lost_part
from aml_train.image.context import ImageContext
from aml_train.image.registry.manifest import Manifest
from aml_train.image.tags import build_tag


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The image that an address has from now on.

    Attributes:
        image: this run's, or another run's.
        problem: the reason why no claim could be made; empty if one was, or if nothing can decide.
    """

    image: Manifest
    problem: str = ""


def claim_address(ctx: ImageContext, ours: Manifest, *, force: bool) -> Agreement:
    """Return the image that the address has from now on: *ours*, or another run's.

    An earlier claim of an image that the registry no longer has, or has lost a part of, is replaced. If no claim can be made, the
    registry's tag decides.
    """
    found: dict[str, Manifest] = {}

    def replaces(other: str) -> bool:
        if force or other == ctx.damaged:
            return True
        manifest = _released(ctx, other)
        if manifest is None:
            return True
        found[other] = manifest
        return False

    if ctx.claims is None:
        return Agreement(image=ours)
    name = f"{ctx.location.job_name}/{ctx.repository}/{ctx.spec.address_tag}"
    try:
        claims = ctx.claims()
        digest = claims.claim(name, ours.digest, replaces=replaces)
    except ServiceError as error:
        other = None if force else tagged_otherwise(ctx, ours)
        return Agreement(image=other or ours, problem=error.message)
    if digest != ours.digest:
        return Agreement(image=found[digest])
    # A run whose claim had no answer may have released another image before this claim, and train in it.
    other = None if force else tagged_otherwise(ctx, ours)
    if other is None or _released(ctx, other.digest) is None:
        return Agreement(image=ours)
    try:
        claims.claim(name, other.digest, replaces=lambda digest: digest == ours.digest)
    except ServiceError as error:
        ctx.note(f"The claim of this image names {ours.digest[:19]}, which is not used: {error.message}")
    return Agreement(image=other)


def tagged_otherwise(ctx: ImageContext, ours: Manifest) -> Manifest | None:
    """Return the image under the address's tag, if it is another one.

    One that is known to be damaged does not count.
    """
    found = ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    return None if found is None or found.digest in (ours.digest, ctx.damaged) else found


def _released(ctx: ImageContext, digest: str) -> Manifest | None:
    """Return the build *digest* of this address; None if it is missing or incomplete."""
    manifest = ctx.registry.get_manifest(ctx.repository, build_tag(ctx, digest))
    if manifest is None or manifest.digest != digest:
        return None
    try:
        lost = lost_part(ctx.registry, ctx.repository, manifest)
    except ImageError as error:
        ctx.warn(f"Whether all of {ctx.repository}@{digest[:19]} is there is not known: {error.message}")
        return manifest
    return manifest if lost is None else None
