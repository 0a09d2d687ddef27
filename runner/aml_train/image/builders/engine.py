"""The builder of a Docker engine: this machine's, or another one."""

from __future__ import annotations

from functools import partial

from docker.errors import APIError

from aml_train.core.docker import BuildCli
from aml_train.core.events import TestsFinished
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken, run_parallel
from aml_train.image.build.build import build_image
from aml_train.image.build.cache import CACHE_TAG, LAYERS_TAG, Cache, engine_cache_kind
from aml_train.image.builder import Verified
from aml_train.image.candidate import Candidate
from aml_train.image.context import ImageContext
from aml_train.image.disk import check_disk
from aml_train.image.push import push_image, read_back
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.manifest import Manifest
from aml_train.image.verify import verify_image, verify_pulled


class EngineBuilder:
    """Builds in the context's engine; pushes while the image is verified there."""

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """See :class:`Builder`."""
        cli = ctx.cli()
        check_disk(ctx.spec.base, ctx.spec.platform, engine=ctx.docker, environ=cli.environ, listener=ctx.listener)
        image_id = build_image(
            ctx.spec,
            cli=cli,
            engine=ctx.docker,
            tag=f"{candidate.name}:{candidate.tag}",
            listener=ctx.listener,
            no_cache=force,
            cache=find_cache(ctx, cli),
        )
        ctx.finish("image", f"built {image_id[:19]}", started)
        (results, facts), manifest = run_parallel(
            lambda token: verify_image(ctx, image_id, token),
            lambda token: _push(ctx, candidate, image_id, token),
            name="push",
            ended="The tests were ended.",
        )
        return Verified(manifest=manifest, results=results, facts=facts)

    def verify(
        self, ctx: ImageContext, found: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """See :class:`Builder`."""
        ctx.check_room(found)
        return verify_pulled(ctx, ctx.pull(found), check=check, test=test)

    def identity(self, ctx: ImageContext) -> str:
        """See :class:`Builder`."""
        return f"docker-engine {ctx.docker.version().get('Version', '')}".strip()

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Remove the candidate's tag from the engine; a failure is only reported."""

        try:
            ctx.docker.images.remove(f"{candidate.name}:{candidate.tag}", noprune=True)
        except APIError as error:
            # 404: the build failed before there was an image. 409: a test container of another run uses the same image.
            if error.status_code not in (404, 409):
                name = f"{candidate.name}:{candidate.tag}"
                ctx.warn(f"The candidate {name} stays on the engine until the next run: {error.explanation}")


def find_cache(ctx: ImageContext, cli: BuildCli) -> Cache:
    """Return where the build finds earlier ones: last release, or a build's layers."""
    kind = engine_cache_kind(ctx.docker, buildx=cli.buildx)
    tag = CACHE_TAG if kind == "inline" else LAYERS_TAG
    return Cache(
        kind=kind,
        repository=f"{ctx.location.push_name}/{ctx.repository}",
        # A lost layer may be one of the cache's, which BuildKit would fail to fetch.
        found=ctx.damaged is None and ctx.registry.head_manifest(ctx.repository, tag) is not None,
        logins=ctx.location.logins(ctx.spec.base.reference.registry),
    )


def _push(ctx: ImageContext, candidate: Candidate, image_id: str, token: CancelToken) -> Manifest:
    """Push the candidate, and check the manifest that arrived."""
    with ctx.stage("push", f"push to {ctx.location.push_name}") as summary:
        check = partial(ctx.registry.check_push, ctx.candidates)
        check()  # the engine would take a minute to report a refusal

        def push() -> str:
            auth = ctx.location.credentials()
            return push_image(
                ctx.docker, candidate.name, candidate.tag, auth=auth, listener=ctx.listener, token=token
            )

        digest = retry(push, check=check, renew=ctx.location.renew, listener=ctx.listener, token=token)
        manifest = read_back(ctx.registry, ctx.candidates, digest, image_id)
        token.raise_if_cancelled()
        summary.append(f"pushed {digest[:19]}")
    candidate.pushed = True
    return manifest
