"""Reports that a run has uploaded as artifacts; a fork may have made them.

Source: https://docs.github.com/rest/actions/artifacts (an artifact is a zip, and names the run that uploaded it), PKWARE's
APPNOTE.TXT (the upper 16 bits of the external attributes are Unix's mode, if the upper byte of "version made by" is 3).
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from dataclasses import dataclass
from typing import Final

from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError
from aml_train.report.values import MOST_BYTES, Report, decode
from aml_train_action.github.api import Api
from aml_train_action.report.files import NAME

PREFIX: Final = "pr-report"
"""How the names of artifacts with a report begin."""

MOST_ARTIFACTS: Final = 20
#: A zip of a report is smaller than the report; this leaves room for its directory.
_MOST_ZIP: Final = MOST_BYTES + 4096
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_UNIX: Final = 3


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact with a report: its id and its name."""

    id: int
    name: str


def list_reports(api: Api, run: Answer) -> list[Artifact]:
    """Return the artifacts of *run* that hold reports, the newest of each name.

    Args:
        api: GitHub.
        run: an attempt of a run, as GitHub describes it.

    Raises:
        InvalidError: there are too many.
    """
    number, began = run.whole("id"), run.time("run_started_at")
    newest: dict[str, Artifact] = {}
    for one in api.pages(f"actions/runs/{number}/artifacts", key="artifacts"):
        name, made = one.text("name"), one.time("created_at")
        if not name.startswith(PREFIX) or one.flag("expired"):
            continue
        # Artifacts of earlier attempts are listed, too.
        if began is not None and made is not None and made < began:
            continue
        if one.whole("workflow_run.id") != number or one.optional_text("workflow_run.head_sha") != run.text(
            "head_sha"
        ):
            raise InvalidError(f"GitHub lists an artifact of another run under run {number}.")
        found = Artifact(id=_id(one), name=name)
        if name not in newest or newest[name].id < found.id:
            newest[name] = found
        if len(newest) > MOST_ARTIFACTS:
            raise InvalidError(f"Run {number} has more than {MOST_ARTIFACTS} artifacts with reports.")
    return sorted(newest.values(), key=lambda one: one.id)


def _id(answer: Answer) -> int:
    number = answer.whole("id")
    if number is None or number <= 0:
        raise InvalidError("GitHub lists an artifact without an id.")
    return number


def load_report(api: Api, artifact: Artifact) -> Report:
    """Download a report, within bounds, and check it.

    Raises:
        InvalidError: it is too large, not a zip with the one file, or no report.
    """
    data = api.download(f"actions/artifacts/{artifact.id}/zip", most=_MOST_ZIP)
    origin = f"The artifact {artifact.name[:100]!r}"
    return decode(unpack(data, origin=origin), origin=origin)


def unpack(data: bytes, *, origin: str, most: int = MOST_BYTES) -> bytes:
    """Return the one file of a zip: an ordinary one named pr-report.json.

    No more than *most* bytes of it are ever decompressed, whatever the zip says of its size.

    Raises:
        InvalidError: it is another zip, or none.
    """

    def wrong(what: str) -> InvalidError:
        return InvalidError(
            f"{origin} {what}.", hint=f"It must be a zip with one file, {NAME}, as the action writes it."
        )

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) != 1:
                raise wrong(f"has {len(entries)} entries")
            (entry,) = entries
            # The name as it is stored: ZipInfo cuts it at a NUL.
            if entry.orig_filename != NAME or entry.filename != NAME:
                raise wrong("has a file of another name or in a folder")
            mode = entry.external_attr >> 16
            if entry.create_system == _UNIX and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise wrong("has an entry that is no ordinary file")
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _METHODS:
                raise wrong("is encrypted, or compressed in a way that is not read")
            if entry.file_size > most:
                raise wrong(f"says that its file has {entry.file_size} bytes; a report has at most {most}")
            with archive.open(entry) as file:
                content = file.read(most + 1)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise wrong(f"cannot be read ({type(error).__name__})") from error
    if len(content) > most:
        raise wrong(f"has a file of more than {most} bytes")
    return content
