"""Pictures of a run, and its documents in a sandbox.

The content of a file decides what it is shown as, never its name. A picture has neither scripts nor links. A document (HTML, SVG) can
have anything, and is the work of a job: it is only answered with ``Content-Security-Policy: sandbox``, which gives it a separate
origin, and shown in an ``<iframe sandbox>``. Scripts stay off: with ``allow-scripts`` a document could navigate its frame by itself, also by
``<meta http-equiv=refresh>``, and so send requests to any address that this machine reaches, and use its processor. Files of
plotting libraries load their scripts from the network, which the policy refuses anyway; downloaded, such a file opens with its scripts.
Sandboxing: https://html.spec.whatwg.org/multipage/browsers.html#sandboxing; the policy: https://www.w3.org/TR/CSP3/#directive-sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import InvalidError, NotFoundError, known_run
from aml_emulator.executor import UnsafePathError, safe_relative
from aml_emulator.page.logged import Shown
from aml_emulator.page.pictures import HEAD_BYTES, MOST_PIXELS, Picture, is_text, picture_of
from aml_emulator.page.view import Content, Document, Paging, size
from aml_emulator.store import Artifact, Run

PICTURE_BYTES: Final = 10 * 2**20
"""The largest picture that is shown."""

DOCUMENT_BYTES: Final = 5 * 2**20
"""The largest document that is shown."""

PICTURES: Final = 24
"""Pictures on one page of a run."""

DOCUMENTS: Final = 50
"""Documents that a run's page lists."""

DOCUMENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}
"""Types of documents by the ends of their names: HTML and SVG are texts both."""

SANDBOX: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; media-src data:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
FRAMES: Final = "frame-src 'self'"
"""An addition to the policy of a page with a frame: the frame cannot be led elsewhere by a link in it."""

_PICTURE_NAME: Final = re.compile(r"\.(png|jpe?g|gif|webp)", re.IGNORECASE)
_MLFLOW: Final = re.compile(
    r"images/(?P<key>.+)(?P<mark>[+%])step(?P=mark)(?P<step>-?\d{1,18})(?P=mark)timestamp(?P=mark)\d+(?P=mark)[^+%/]+"
    r"(?P<small>(?P=mark)compressed)?\.(?:png|webp)"
)
"""The names of the files of ``mlflow.log_image(image, key=, step=)``: a picture, and a small copy of it
(https://mlflow.org/docs/latest/python_api/mlflow.html#mlflow.log_image)."""


@dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """A file that may be a picture, the file that is shown small, and its caption."""

    path: str
    small: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """The pictures and documents of a run; *left_out* counts further documents."""

    pictures: Sequence[Thumbnail]
    paging: Paging
    documents: Sequence[str]
    left_out: int


class FilePages:
    """Shows files of runs."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def view(self, call: Call) -> Document:
        """Return the page of one file: a picture, a document in a frame, or why neither."""
        run, artifact = self._asked(call)
        length, head = self._size(run, artifact), self._read(run, artifact, HEAD_BYTES)
        picture = _shown_picture(head, length)
        framed = picture is None and _is_document(artifact.path, head, length)
        return Document(
            template="view.html",
            title=f"{artifact.path} of {run.display_name}",
            section="runs",
            values={"run": run, "path": artifact.path, "size": length, "picture": picture, "framed": framed},
            policy=FRAMES if framed else "",
        )

    def picture(self, call: Call) -> Content:
        """Return a picture.

        Raises:
            InvalidError: the content is none that is shown.
        """
        artifact, length, content = self._whole(call, PICTURE_BYTES)
        found = _shown_picture(content, length)
        if found is None:
            raise InvalidError(
                f"'{artifact.path}' is not shown: its content is no PNG, JPEG, GIF or WebP picture of at most"
                f" {size(PICTURE_BYTES)} and {MOST_PIXELS // 10**6} million pixels. It can be downloaded."
            )
        return Content(type=found.type, body=content, cache="private, max-age=60")

    def document(self, call: Call) -> Content:
        """Return a document for a sandboxed frame.

        Raises:
            InvalidError: the content is none that is shown.
        """
        artifact, length, content = self._whole(call, DOCUMENT_BYTES)
        if not _is_document(artifact.path, content, length):
            raise InvalidError(
                f"'{artifact.path}' is not shown: it is no HTML or SVG text of at most {size(DOCUMENT_BYTES)}. It can be"
                " downloaded."
            )
        return Content(
            type=DOCUMENT_TYPES[_ending(artifact.path)],
            body=content,
            shown=True,
            headers=(
                ("Content-Security-Policy", SANDBOX),
                ("X-Frame-Options", "SAMEORIGIN"),
                # A browser refuses to open a sandboxed document by itself where this isolates it.
                ("Cross-Origin-Opener-Policy", "unsafe-none"),
            ),
        )

    def _whole(self, call: Call, most: int) -> tuple[Artifact, int, bytes]:
        """Return a file, its size, and its content if it has at most *most* bytes."""
        run, artifact = self._asked(call)
        length = self._size(run, artifact)
        return artifact, length, self._read(run, artifact, most) if length <= most else b""

    def _asked(self, call: Call) -> tuple[Run, Artifact]:
        run, path = known_run(self._context, call.params["run"]), call.query.get("path", "")
        found = self._context.store.runs.artifact(run.id, path)
        try:
            inside = safe_relative(path) == path
        except UnsafePathError:
            inside = False
        if found is None or not inside:
            raise NotFoundError(f"file '{path}' of run '{run.id}'")
        return run, found

    def _size(self, run: Run, artifact: Artifact) -> int:
        folder = self._context.files_of(run)
        length = self._context.blobs.size(folder.container, folder.name_of(artifact.path))
        if length is None:
            raise NotFoundError(f"contents of '{artifact.path}' of run '{run.id}': made known, and not uploaded")
        return length

    def _read(self, run: Run, artifact: Artifact, most: int) -> bytes:
        folder = self._context.files_of(run)
        try:
            return self._context.blobs.read_range(folder.container, folder.name_of(artifact.path), 0, most)
        except ResourceNotFoundError:
            return b""


def gallery_of(artifacts: Iterable[Artifact], logged: Iterable[Shown], call: Call) -> Gallery:
    """Return the files that a run's page shows, by their names alone.

    Args:
        logged: azureml-core's values, of which some are pictures, whatever their files are called.
    """
    paths = {artifact.path: artifact for artifact in artifacts if not artifact.log}
    pictures = thumbnails(paths, {one.path: one.name for one in logged if one.picture})
    documents = [path for path in paths if _ending(path) in DOCUMENT_TYPES]
    paging = Paging(page=call.integer("pictures", 1, low=1), size=PICTURES, total=len(pictures))
    return Gallery(
        pictures=pictures[paging.offset : paging.offset + PICTURES],
        paging=paging,
        documents=documents[:DOCUMENTS],
        left_out=max(0, len(documents) - DOCUMENTS),
    )


def thumbnails(paths: Iterable[str], names: dict[str, str]) -> list[Thumbnail]:
    """Return the files that may be pictures, in the order of their captions.

    Args:
        names: the names of files that were logged as pictures.
    """
    found: list[tuple[str, int, Thumbnail]] = []
    known = list(paths)
    small = {}
    for path in known:
        match = _MLFLOW.fullmatch(path)
        if match is not None and match["small"]:
            small[path.rpartition(match["small"])[0]] = path
    for path in known:
        match = _MLFLOW.fullmatch(path)
        whole = path.rpartition(".")[0]
        if match is not None and match["small"]:
            if f"{path.rpartition(match['small'])[0]}.png" not in known:
                found.append((path, 0, Thumbnail(path=path, small=path, caption=path)))
        elif match is not None:
            key, step = match["key"], int(match["step"])
            shown = Thumbnail(path=path, small=small.get(whole, path), caption=f"{key}, step {step}")
            found.append((key, step, shown))
        elif path in names or _PICTURE_NAME.fullmatch(_ending(path)):
            found.append((path, 0, Thumbnail(path=path, small=path, caption=names.get(path, path))))
    return [one for _, _, one in sorted(found, key=lambda item: item[:2])]


def _shown_picture(head: bytes, length: int) -> Picture | None:
    return picture_of(head) if length <= PICTURE_BYTES else None


def _is_document(path: str, head: bytes, length: int) -> bool:
    return _ending(path) in DOCUMENT_TYPES and 0 < length <= DOCUMENT_BYTES and is_text(head)


def _ending(path: str) -> str:
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""
