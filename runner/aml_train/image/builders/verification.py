"""Checks and tests as a build, for services that run no containers.

The image that is verified is the one in ``FROM``, by its manifest digest. A step of the build runs the probe and the tests in it, and
writes files; a last stage has only these, and is pushed for us to read. A step of a build has neither the registry's credentials
nor the engine's socket, unlike a ``cmd`` step of ACR Tasks (Azure/acr-builder, ``builder/context.go``, ``getDockerRunArgs``).
"""

from __future__ import annotations

import gzip
import io
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.image.readiness.check import CHECKS_FOLDER, CHECKS_SCRIPT
from aml_train.image.readiness.judge import probe_script
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import PYTEST_OPTIONS, WORKSPACE, ReportPath, working_folder

_OURS: Final = "aml-train-verify"
_RESULTS: Final = "aml-train-results"
_LIMIT: Final = 64 << 20
_LARGEST: Final = 50 << 20
_MEMBERS: Final = ("facts.json", "size", "exit", "seconds", "timed-out", "junit.xml")

_CHECK: Final = f"""
du -skx / 2>/dev/null | cut -f1 >/{_RESULTS}/size
(
{CHECKS_SCRIPT}
) || echo "the probe ended with an error"
cp /{CHECKS_FOLDER}/facts.json /{_RESULTS}/facts.json
"""
# The tests are a separate process group if the image has setsid: processes that they leave running end with them. Without it, these
# end with the step.
_TEST: Final = f"""
mkdir -p {{folder}} && cd {{folder}} || exit 1
rm -rf -- {{report}}
{{exports}}
began=$(date +%s)
group=
if command -v setsid >/dev/null; then
    setsid /bin/sh -c {{command}} </dev/null &
    group=-
else
    /bin/sh -c {{command}} </dev/null &
fi
tests=$!
( sleep {{timeout}}; : >/{_RESULTS}/timed-out; kill -s KILL -- "$group$tests" ) >/dev/null 2>&1 &
watch=$!
wait "$tests"
echo "$?" >/{_RESULTS}/exit
kill "$watch" 2>/dev/null
kill -s KILL -- "$group$tests" 2>/dev/null
echo "$(($(date +%s) - began))" >/{_RESULTS}/seconds
if [ -f {{report}} ]; then cp {{report}} /{_RESULTS}/junit.xml; fi
"""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The files that a verification left.

    Attributes:
        facts: the probe's output; None if it was not wanted, or wrote none.
        size: bytes of the image, unpacked; None if it could not be measured.
        exit_code: the tests' exit status; None if they did not run.
        seconds: how long the tests ran.
        timed_out: whether they were killed for the time.
        report: the JUnit report; None if they wrote none.
    """

    facts: bytes | None = None
    size: int | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    timed_out: bool = False
    report: bytes | None = None


def verification_dockerfile(reference: ImageRef, name: str) -> str:
    """Return the Dockerfile that verifies *reference*, which names a digest. Pure.

    *name* is different each time: results of an earlier verification are never taken from a cache.
    """
    return (
        f"FROM {reference.familiar} AS verified\n"
        f'LABEL {_OURS}="{name}"\n'
        "ADD files.tar /\n"
        f'RUN ["/bin/sh", "/{_OURS}/verify.sh"]\n'
        "\n"
        "FROM scratch\n"
        f"COPY --from=verified /{_RESULTS}/ /\n"
    )


def verification_files(tests: TestSpec | None, report: ReportPath | None, *, check: bool) -> bytes:
    """Return the archive ``files.tar``: scripts, probe and the tests' files.

    Any user may write to its folders.
    """
    buffer = io.BytesIO()
    if tests is not None:
        tests.files.tar(buffer, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
    else:
        with tarfile.open(fileobj=buffer, mode="w"):
            pass
    folders = [_OURS, _RESULTS, CHECKS_FOLDER, *([report.folder] if report is not None and report.folder else [])]
    files = {f"{_OURS}/verify.sh": verification_script(tests, report, check=check).encode()}
    if check:
        files[f"{CHECKS_FOLDER}/probe.py"] = probe_script()
    buffer.seek(0)
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for name in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def verification_script(tests: TestSpec | None, report: ReportPath | None, *, check: bool) -> str:
    """Return the script of the step, which always succeeds. Pure."""
    parts = [_CHECK] if check else []
    if tests is not None and report is not None:
        given = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **tests.env}
        exports = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
        if report.folder is not None:  # after the variables: the image's value or the tests' own is kept
            options = shlex.quote(PYTEST_OPTIONS.format(report.path))
            exports.append(f'export PYTEST_ADDOPTS="${{PYTEST_ADDOPTS:+$PYTEST_ADDOPTS }}"{options}')
        parts.append(
            _TEST.format(
                folder=shlex.quote(working_folder(tests)),
                report=shlex.quote(report.path),
                exports="\n".join(exports),
                command=shlex.quote(tests.command),
                timeout=int(tests.timeout),
            )
        )
    return "".join(parts) + "exit 0\n"


def read_findings(registry: Registry, repository: str, tag: str) -> Findings:
    """Return what the verification pushed as ``repository:tag``.

    Raises:
        ImageError: it is not there, or is something else.
    """
    manifest = registry.get_manifest(repository, tag)
    if manifest is not None and manifest.is_index:
        manifest = registry.get_manifest(repository, manifest.children[0])
    if manifest is None:
        raise ImageError(f"the registry {registry.host} does not have {repository}:{tag}, the results of the checks")
    return parse_findings(_files(registry, repository, manifest))


def parse_findings(files: Mapping[str, bytes]) -> Findings:
    """Return the findings in *files*. Pure.

    Raises:
        ImageError: a file has something else in it.
    """

    def number(name: str) -> int | None:
        text = files.get(name, b"").decode("ascii", "replace").strip()
        if not text:
            return None
        if not text.isdecimal() or len(text) > 15:
            raise ImageError(f"the results of the checks are damaged: `{name}` is {text[:40]!r}")
        return int(text)

    return Findings(
        facts=files.get("facts.json"),
        size=None if (kibibytes := number("size")) is None else kibibytes * 1024,
        exit_code=number("exit"),
        seconds=float(number("seconds") or 0),
        timed_out="timed-out" in files,
        report=files.get("junit.xml") or None,
    )


def _files(registry: Registry, repository: str, manifest: Manifest) -> dict[str, bytes]:
    """Return the files of an image's layers; the tests may have written anything."""
    found: dict[str, bytes] = {}
    for layer in manifest.blobs[1:]:
        content = registry.get_blob(repository, layer, limit=_LIMIT)
        try:
            with tarfile.open(fileobj=_unpacked(content), mode="r:") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if name in _MEMBERS and member.isfile() and member.size <= _LARGEST:
                        file = archive.extractfile(member)
                        found[name] = file.read() if file is not None else b""
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ImageError(f"the results of the checks, {repository}@{layer}, cannot be read: {error}") from error
    return found


def _unpacked(content: bytes) -> io.BytesIO:
    """Return a layer's archive, bounded: a few bytes can unpack to any size."""
    with gzip.open(io.BytesIO(content)) as stream:
        data = stream.read(3 * _LIMIT)
    return io.BytesIO(data)
