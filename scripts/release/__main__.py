"""The command line of a release: ``python -m scripts.release``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aml_train.core.docker import connect_engine
from aml_train.core.errors import AmlTrainError, ImageError
from aml_train.image.registry.client import Registry
from scripts.release.adopt import Adoption, adopt
from scripts.release.commands import ReleaseError
from scripts.release.commit import check_commit, commit_release, push_release
from scripts.release.distributions import build_distributions, check_index, upload
from scripts.release.layout import Layout
from scripts.release.record import Record, empty_output
from scripts.release.registry import check_image, open_registry, push_layout
from scripts.release.sources import export

ROOT: Final = Path(__file__).resolve().parents[2]
TAG: Final = "release/v"

_STEPS: Final = """\
A release, step by step. The workflow release.yml runs the same commands.

  python -m scripts.release adopt --repository OWNER/NAME --version 1.0.0
      Give the project your repository's name and its first version; commit, tag, and print what
      is left to do. Once for a repository.
  python -m scripts.release check --repository OWNER/NAME --tag release/v1.0.0
      Refuse within seconds what a release would refuse after its tests.
  python -m scripts.release build --repository OWNER/NAME
      Build wheel, action and emulator from the last commit into dist/release, with the list of
      the packages in each image, and the record release.json.
  python -m scripts.release test
      Install the wheel in an empty environment and train with it; test the action's image as a
      runner uses it, and the emulator's image by Azure's SDKs.
  python -m scripts.release publish --registry ghcr.io --index https://upload.pypi.org/legacy/
      Push the images by digest and upload the package. Nothing that is published is replaced.
  python -m scripts.release verify --registry ghcr.io --index https://pypi.org/simple
      Compare each byte that is published with the build.
  python -m scripts.release commit --registry ghcr.io --push origin
      Make the release commit, whose action.yml names the image by digest, with the tags.
  python -m scripts.release compare dist/release /tmp/again
      Name the files in which two builds differ.

For a trial, use a local registry and index: --registry localhost:5000 --index http://localhost:8080/
(uploads with UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD). docs/releasing.md has the details.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="python -m scripts.release", description=_STEPS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument(
        "--output", type=Path, default=ROOT / "dist/release", help="the folder of the build (default: dist/release)"
    )
    source = argparse.ArgumentParser(add_help=False)
    source.add_argument("--source", type=Path, default=ROOT, help="the git repository (default: this one)")

    adoption = commands.add_parser("adopt", parents=[source], help="give the project your repository's name")
    adoption.add_argument("--repository", required=True, metavar="OWNER/NAME", help="your repository on GitHub")
    adoption.add_argument("--version", default="1.0.0", help="its next version (default: 1.0.0); 0.x is allowed")
    adoption.add_argument("--pypi-name", metavar="NAME", help="the package's name on PyPI, if you publish it there")

    check = commands.add_parser("check", parents=[source], help="check what a release would refuse")
    check.add_argument("--repository", required=True, metavar="OWNER/NAME", help="the repository on GitHub")
    check.add_argument("--ref", default="HEAD", help="the commit (default: HEAD)")
    check.add_argument("--tag", help=f"the tag that asks for the release, such as {TAG}1.2.3; it must agree")

    build = commands.add_parser("build", parents=[output, source], help="build the package and the images")
    build.add_argument("--repository", required=True, metavar="OWNER/NAME", help="the repository on GitHub")
    build.add_argument("--ref", default="HEAD", help="the commit to build (default: HEAD)")
    build.add_argument("--tag", help=f"the tag that asks for the release, such as {TAG}1.2.3; it must agree")
    build.add_argument(
        "--bases",
        choices=("registry", "engine"),
        default="registry",
        help="look the bases' digests up in their registry (default), or take the engine's own images as they are",
    )
    build.add_argument("--no-cache", action="store_true", help="build each step of the images again")

    test = commands.add_parser("test", parents=[output], help="test the built artefacts themselves")
    test.add_argument("options", nargs="*", help="options of pytest after --, such as -k NAME")

    publish = commands.add_parser("publish", parents=[output], help="publish to a registry and an index")
    publish.add_argument("--registry", help="host and port of the container registry; without it no image is pushed")
    publish.add_argument("--index", help="upload address of the package index; without it nothing is uploaded")

    verify = commands.add_parser("verify", parents=[output], help="compare what is published with the build")
    verify.add_argument("--registry", help="host and port of the container registry")
    verify.add_argument(
        "--index", help="address of the package index as pip reads it, such as https://pypi.org/simple"
    )

    commit = commands.add_parser("commit", parents=[output, source], help="make the release commit and its tags")
    commit.add_argument("--registry", required=True, help="the registry that has the images")
    commit.add_argument("--push", metavar="REMOTE", help="push the tags there")
    commit.add_argument(
        "--keep-workflows", action="store_true", help="leave the workflows: the token of a run may not push others"
    )

    compare = commands.add_parser("compare", help="name the artefacts in which two builds differ")
    compare.add_argument("folders", nargs=2, type=Path, metavar="FOLDER")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 with a message on standard error."""
    options = parser().parse_args(arguments)
    steps = {
        "adopt": _adopt,
        "check": _check,
        "build": _build,
        "test": _test,
        "publish": _publish,
        "verify": _verify,
        "commit": _commit,
    }
    try:
        if options.command == "compare":
            return _compare(options)
        steps[options.command](options)
    except (ReleaseError, AmlTrainError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _adopt(options: argparse.Namespace) -> None:
    adoption = Adoption(repository=options.repository, version=options.version, package=options.pypi_name)
    adopt(options.source, adoption, _say)


def _check(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="aml-train-release-") as folder:
        sources = export(options.source, options.ref, options.repository, Path(folder), version=_version(options.tag))
    check_commit(options.source, sources)
    _say(f"{sources.repository} {sources.version} of {sources.commit} can be released")


def _version(tag: str | None) -> str | None:
    return tag.removeprefix("refs/tags/").removeprefix(TAG) if tag else None


def _build(options: argparse.Namespace) -> None:
    from scripts.release.images import RECIPES, Builder

    output: Path = options.output
    with tempfile.TemporaryDirectory(prefix="aml-train-release-") as folder:
        sources = export(options.source, options.ref, options.repository, Path(folder), version=_version(options.tag))
        print(f"{sources.repository} {sources.version} of {sources.commit}", flush=True)
        engine = connect_engine(os.environ)
        empty_output(output)
        builder = Builder(engine=engine, environ=os.environ, bases=options.bases, no_cache=options.no_cache, say=_say)
        distributions = build_distributions(sources, output)
        for one in distributions:
            _say(f"{one.file}: sha256:{one.sha256}")
        images = tuple(builder.build(recipe, sources, output) for recipe in RECIPES)
    record = Record(
        repository=sources.repository,
        version=sources.version,
        commit=sources.commit,
        epoch=sources.epoch,
        images=images,
        distributions=distributions,
    )
    record.write(output)
    _say(f"{output} has the release; next: python -m scripts.release test")


def _test(options: argparse.Namespace) -> None:
    from scripts.release.checks import run_checks

    record = Record.read(options.output)
    run_checks(ROOT, options.output, record, connect_engine(os.environ), options.options, _say)
    _say("The artefacts pass; next: python -m scripts.release publish")


def _publish(options: argparse.Namespace) -> None:
    record = Record.read(options.output)
    _need_place(options)
    if options.registry:
        with open_registry(options.registry, os.environ) as registry:
            for image in record.images:
                layout = Layout.open(options.output / image.archive)
                push_layout(registry, image.repository, layout, tag=record.version)
                _say(f"{options.registry}/{image.repository}:{record.version} is {image.digest}")
    if options.index:
        upload([options.output / one.file for one in record.distributions], options.index)
        _say(f"{options.index} has {', '.join(one.file for one in record.distributions)}")


def _verify(options: argparse.Namespace) -> None:
    record = Record.read(options.output)
    _need_place(options)
    if options.registry:
        with open_registry(options.registry, os.environ) as registry:
            for image in record.images:
                layout = Layout.open(options.output / image.archive)
                if layout.digest != image.digest:
                    raise ReleaseError(f"{image.archive} is {layout.digest}, and the record says {image.digest}.")
                _check_public(registry, image.repository, layout, record)
                _say(f"{options.registry}/{image.repository}@{image.digest} is the build, byte for byte")
    if options.index:
        for one in record.distributions:
            check_index(one, options.index)
            _say(f"{one.file} in {options.index} is the build, byte for byte")


def _check_public(registry: Registry, repository: str, layout: Layout, record: Record) -> None:
    try:
        check_image(registry, repository, layout, tag=record.version)
    except ImageError as error:
        if registry.host != "ghcr.io":
            raise
        package = repository.partition("/")[2]
        raise ReleaseError(
            f"{error}\nA new package of ghcr.io is private, and workflows of others cannot pull it. Make it public at "
            f"https://github.com/{record.repository}/pkgs/container/{package}, and run this job again."
        ) from error


def _commit(options: argparse.Namespace) -> None:
    record = Record.read(options.output)
    committed = commit_release(options.source, record, options.registry, workflows=not options.keep_workflows)
    _say(f"{committed.version_tag} and {committed.moving_tag} are {committed.release}")
    _say(f"the action.yml of {committed.action} has the image by digest")
    if options.push:
        push_release(options.source, options.push, committed)
        _say(f"pushed to {options.push}")


def _compare(options: argparse.Namespace) -> int:
    # The lists of packages are left out: SPDX has the time of each.
    digests = [
        {one.file: one.sha256 for one in record.distributions} | {one.name: one.digest for one in record.images}
        for record in map(Record.read, options.folders)
    ]
    lines = [
        f"{name}: {digest} and {digests[1].get(name)}"
        for name, digest in digests[0].items()
        if digests[1].get(name) != digest
    ]
    print("\n".join(lines) or "Both builds are the same, byte for byte.")
    return 1 if lines else 0


def _need_place(options: argparse.Namespace) -> None:
    if not (options.registry or options.index):
        raise ReleaseError("Name --registry, --index or both.")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
