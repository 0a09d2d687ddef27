"""The tag of an image that is not yet released."""

from __future__ import annotations

from typing import Final

import requests

from aml_train.core.errors import ImageError
from aml_train.image.build.build import BUILD_TIMEOUT
from aml_train.image.context import ImageContext
from aml_train.image.leftovers import candidate_tag
from aml_train.image.registry.manifest import Manifest

# Build, tests and push of any sane length; it counts only if the owner's life cannot be looked up.
CANDIDATE_LEASE: Final = BUILD_TIMEOUT + 24 * 3600

# Roles: https://learn.microsoft.com/azure/container-registry/container-registry-rbac-built-in-roles-overview; the command:
# https://learn.microsoft.com/azure/container-registry/container-registry-auto-purge.
_CANDIDATE_STAYS: Final = (
    "The candidate {repository}:{tag} stays in the registry, as those of other runs do, because this identity may not remove tags: "
    "AcrPush does not allow it. Assign the role AcrDelete as well (in a registry with ABAC repository permissions: Container "
    "Registry Repository Contributor), or remove candidates on a schedule: acr purge --filter '{repository}:.*' --ago 1d "
    "--untagged. See docs/registry.md."
)


class Candidate:
    """The tag of an image that is not yet released.

    Attributes:
        name: registry and repository, as the engine names them.
        tag: unique for this run; carries its owner and its lease.
        pushed: whether the registry may have the tag.
    """

    def __init__(self, ctx: ImageContext, tag: str | None = None) -> None:
        self.name = f"{ctx.location.push_name}/{ctx.candidates}"
        self.tag = candidate_tag(ctx.engine, CANDIDATE_LEASE) if tag is None else tag
        self.pushed = False
        self._ctx = ctx

    def manifest(self, digest: str | None = None) -> Manifest:
        """Return the manifest that the registry has under the tag.

        Args:
            digest: what the builder reported; a tag that is unique has no other one.

        Raises:
            ImageError: the registry lacks it, or has another one than was reported.
        """
        ctx = self._ctx
        found = ctx.registry.get_manifest(ctx.candidates, self.tag)
        if found is None:
            raise ImageError(
                f"the registry {ctx.registry.host} does not have {ctx.candidates}:{self.tag}, which was just pushed",
                hint="Check that the builder pushes to the target's registry: `registry` and `push-registry` of the target.",
            )
        if digest is not None and found.digest != digest:
            raise ImageError(
                f"{ctx.registry.host} has {found.digest} as {ctx.candidates}:{self.tag}, the builder pushed {digest}",
                hint="Run again. If it happens again, something between the builder and the registry changes images.",
            )
        return found

    def untag(self) -> None:
        """Remove the tag from the registry; one notice names a missing role."""

        ctx = self._ctx
        if not self.pushed:
            return
        try:
            if ctx.registry.untag(ctx.candidates, self.tag):
                return
        except (requests.RequestException, ImageError) as error:
            ctx.warn(f"The candidate {self.name}:{self.tag} stays in the registry: {error}")
            return
        if ctx.registry.can_lock:  # in another registry no role would help, and docs/registry.md says what does
            ctx.note(_CANDIDATE_STAYS.format(repository=ctx.candidates, tag=self.tag))
