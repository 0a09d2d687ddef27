"""Checks and tests as a build, for services that run no containers.

The image that is verified is the one in ``FROM``, by its manifest digest. A step of the build runs the probe and the tests in it, and
writes files; a last stage has only these, and is pushed for us to read. A step of a build has neither the registry's credentials
nor the engine's socket, unlike a ``cmd`` step of ACR Tasks, which is privileged (Azure/acr-builder, ``builder/context.go``,
``getDockerRunArgs``).
"""

from __future__ import annotations

import gzip
import io
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.image.readiness.check import CHECKS_FOLDER, CHECKS_SCRIPT, probe_script
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import (
    WORKSPACE,
    End,
    Reports,
    command_words,
    plugin_files,
    report_places,
    shell_prelude,
    working_folder,
)
from aml_train.image.testing.run import Written

_OURS: Final = "aml-train-verify"
_RESULTS: Final = "aml-train-results"
_REPORTS: Final = "reports/"
_NAMED: Final = "named"
_LIMIT: Final = 64 << 20
_LARGEST: Final = 50 << 20
_MEMBERS: Final = ("facts.json", "exit", "seconds", "timed-out", _NAMED)

_CHECK: Final = f"""
(
{CHECKS_SCRIPT}
) || echo "the probe ended with an error"
cp /{CHECKS_FOLDER}/facts.json /{_RESULTS}/facts.json
"""
# The tests are a separate process group if the image has setsid: processes that they leave running end with them. Without it, these
# end with the step.
_TEST: Final = f"""
mkdir -p {{workdir}} && cd {{workdir}} || exit 1
{{exports}}
began=$(date +%s)
group=
if command -v setsid >/dev/null; then
    setsid {{command}} </dev/null &
    group=-
else
    {{command}} </dev/null &
fi
tests=$!
( sleep {{timeout}}; : >/{_RESULTS}/timed-out; kill -s KILL -- "$group$tests" ) >/dev/null 2>&1 &
watch=$!
wait "$tests"
echo "$?" >/{_RESULTS}/exit
kill "$watch" 2>/dev/null
kill -s KILL -- "$group$tests" 2>/dev/null
echo "$(($(date +%s) - began))" >/{_RESULTS}/seconds
mkdir /{_RESULTS}/reports && cp {{folder}}/*.xml /{_RESULTS}/reports/ 2>/dev/null
[ -z {{named}} ] || cp -R {{named}} /{_RESULTS}/{_NAMED}
"""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The files that a verification left.

    Attributes:
        facts: the probe's output; None if it was not wanted, or wrote none.
        end: how the tests ended; None if they did not run.
        written: their reports.
    """

    facts: bytes | None = None
    end: End | None = None
    written: Written = field(default_factory=Written)


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


def verification_files(tests: TestSpec | None, *, check: bool) -> bytes:
    """Return the archive ``files.tar``: scripts, probe and the tests' files.

    Any user may write to its folders.
    """
    buffer = io.BytesIO()
    if tests is not None:
        tests.files.tar(buffer, prefix=WORKSPACE.strip("/"), folder_mode=0o777)
    else:
        with tarfile.open(fileobj=buffer, mode="w"):
            pass
    folders, reports = [_OURS, _RESULTS, CHECKS_FOLDER], None if tests is None else report_places(tests)
    files = {f"{_OURS}/verify.sh": verification_script(tests, reports, check=check).encode()}
    if reports is not None:
        folders.append(reports.folder.strip("/"))
        files |= {f"{folders[-1]}/{name}": content for name, content in plugin_files().items()}
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


def verification_script(tests: TestSpec | None, reports: Reports | None, *, check: bool) -> str:
    """Return the script of the step, which always succeeds. Pure."""
    parts = [_CHECK] if check else []
    if tests is not None and reports is not None:
        given = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **tests.env}
        exports = [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
        parts.append(
            _TEST.format(
                workdir=shlex.quote(working_folder(tests)),
                exports="\n".join([*exports, shell_prelude(reports)]),
                command=shlex.join(command_words(tests)),
                timeout=int(tests.timeout),
                folder=reports.folder,
                named=shlex.quote(reports.named or ""),
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

    end, exit_code, timed_out = None, number("exit"), "timed-out" in files
    if exit_code is not None or timed_out:
        end = End(exit_code=exit_code or 0, seconds=float(number("seconds") or 0), timed_out=timed_out)
    return Findings(
        facts=files.get("facts.json"),
        end=end,
        written=Written(
            by_pytest={name: content for name, content in files.items() if name.startswith(_REPORTS)},
            named={name: content for name, content in files.items() if name.split("/")[0] == _NAMED},
        ),
    )


def _files(registry: Registry, repository: str, manifest: Manifest) -> dict[str, bytes]:
    """Return the files of an image's layers; the tests may have written anything."""
    found: dict[str, bytes] = {}
    for layer in manifest.blobs[1:]:
        content = registry.get_blob(repository, layer, limit=_LIMIT)
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                unpacked = stream.read(3 * _LIMIT)  # a few bytes can unpack to any size
            with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    wanted = name in _MEMBERS or (name.endswith(".xml") and name.startswith((_REPORTS, f"{_NAMED}/")))
                    if wanted and member.isfile():
                        file = archive.extractfile(member) if member.size <= _LARGEST else None
                        found[name] = file.read() if file is not None else b""
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ImageError(f"the results of the checks, {repository}@{layer}, cannot be read: {error}") from error
    return found
