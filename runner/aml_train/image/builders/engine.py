"""The builders that test in a Docker engine: the engine itself, and a named builder of buildx, which pushes what the engine pulls."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from docker.errors import APIError

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import TestsFinished
from aml_train.core.references import is_digest
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken, run_parallel
from aml_train.image.build.build import CACHE_TAG, Build, Cache, build_image, comparison, run_build
from aml_train.image.builder import Candidate, Verified
from aml_train.image.context import ImageContext
from aml_train.image.push import push_image, read_back
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.manifest import Manifest
from aml_train.image.solve import solve
from aml_train.image.spec import ImageSpec
from aml_train.image.verify import verify_image


class EngineBuilder:
    """Builds in the context's engine; pushes while the image is verified there.

    Args:
        cli: finds the command to build with; called only if an image is built.
    """

    def __init__(self, cli: Callable[[], BuildCli]) -> None:
        self._find_cli = cli

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """See :class:`Builder`."""
        cache = Cache(
            repository=f"{ctx.location.push_name}/{ctx.repository}",
            found=ctx.registry.head_manifest(ctx.repository, CACHE_TAG) is not None,
            logins=ctx.location.logins(ctx.spec.base.reference.registry),
        )
        cli = self._find_cli()
        check_packages(ctx, cli, cache)
        image_id = build_image(
            ctx.spec,
            cli=cli,
            engine=ctx.docker,
            tag=f"{candidate.name}:{candidate.tag}",
            listener=ctx.listener,
            no_cache=force,
            cache=cache,
        )
        ctx.finish("image", f"built {image_id[:19]}", started)
        (results, facts), manifest = run_parallel(
            lambda token: verify_image(ctx, image_id, check=True, test=True, token=token),
            lambda token: _push(ctx, candidate, image_id, token),
            name="push",
            ended="The tests were ended.",
        )
        return Verified(manifest=manifest, results=results, facts=facts or {})

    def verify(
        self, ctx: ImageContext, found: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """See :class:`Builder`."""
        return verify_image(ctx, ctx.pull(found), check=check, test=test)

    def identity(self, ctx: ImageContext) -> str:
        """See :class:`Builder`."""
        return f"docker-engine {ctx.docker.version().get('Version', '')}".strip()

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Remove the candidate's tag from the engine; a failure is only reported."""
        _discard(ctx, f"{candidate.name}:{candidate.tag}")


def _discard(ctx: ImageContext, name: str) -> None:
    try:
        ctx.docker.images.remove(name, noprune=True)
    except APIError as error:
        # 404: the build failed before there was an image. 409: a test container of another run uses the same image.
        if error.status_code not in (404, 409):
            ctx.warn(f"The candidate {name} stays on the engine until the next run: {error.explanation}")


def check_packages(ctx: ImageContext, cli: BuildCli, cache: Cache, builder: str = "default") -> None:
    """End the build before it begins if pip finds no versions that fit together."""
    solution = solve(ctx.spec, cli=lambda: cli, listener=ctx.listener, builder=builder, logins=cache.logins)
    for remark in solution.remarks:
        ctx.note(remark)


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


_METADATA: Final = "metadata.json"


def push_command(cli: BuildCli, builder: str, folder: Path, name: str | None) -> list[str]:
    """Return the beginning of a command that builds in *builder* and pushes as *name*. Pure.

    Without a name the result stays in the builder.

    Source of the outputs: https://docs.docker.com/build/exporters/.
    """
    output = "--output=type=cacheonly" if name is None else f"--output=type=image,name={name},push=true"
    options = [f"--builder={builder}", "--provenance=false", output, f"--metadata-file={folder / _METADATA}"]
    return [cli.path, "buildx", "build", *options]


def pushed_digest(folder: Path) -> str:
    """Return the digest in the file of ``--metadata-file``; empty if it has none."""
    try:
        found = json.loads((folder / _METADATA).read_text(encoding="utf-8")).get("containerimage.digest")
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) and is_digest(found) else ""


class BuildxBuilder(EngineBuilder):
    """Builds in a named builder of buildx, and tests in this machine's engine.

    Args:
        cli: as of :class:`EngineBuilder`.
        name: of ``docker buildx ls``.
        where: ``file:line`` of the builder.
    """

    def __init__(self, cli: Callable[[], BuildCli], name: str, *, where: str) -> None:
        super().__init__(cli)
        self._name = name
        self._where = where
        self._pulled: str | None = None

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """See :class:`Builder`."""
        cli = self._find_cli()
        if not cli.buildx:
            raise ImageError(
                f"{self._where}: the builder {self._name} needs the buildx plugin of the docker command",
                hint="Install it: the package docker-buildx-plugin, or docker-buildx on Debian and Ubuntu.",
            )
        name = f"{candidate.name}:{candidate.tag}"
        # Before the first byte: from here on the registry may have the tag.
        candidate.pushed = True
        spec, cache = ctx.spec, Cache(logins=ctx.location.logins(ctx.spec.base.reference.registry))
        ctx.registry.check_push(ctx.candidates)  # before the build: the builder pushes only at its end
        check_packages(ctx, cli, cache, self._name)

        def run(one: ImageSpec, name: str | None) -> str:
            build, head = (
                Build(spec=one, no_cache=force, cache=cache),
                partial(push_command, cli, self._name, name=name),
            )
            return run_build(build, head, pushed_digest, cli=cli, listener=ctx.listener)

        manifest = candidate.manifest(run(spec, name) or None)
        ctx.finish("image", f"built and pushed {manifest.digest[:19]}", started)
        self._pulled = f"{candidate.name}@{manifest.digest}"
        if (check := comparison(spec, self._pulled)) is not None:
            run(check, None)
        image_id = ctx.pull(manifest, repository=ctx.candidates)
        results, facts = verify_image(ctx, image_id, check=True, test=True)
        return Verified(manifest=manifest, results=results, facts=facts or {})

    def identity(self, ctx: ImageContext) -> str:
        """See :class:`Builder`."""
        del ctx
        return f"buildx {self._name}"

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Remove the pulled candidate from the engine; a failure is only reported."""
        if self._pulled is not None:
            _discard(ctx, self._pulled)
