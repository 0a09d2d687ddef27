"""The log of a run of ACR Tasks: an append blob that grows, read in ranges.

``az acr task logs`` reads it in the same way, and ends where the blob's metadata has the key ``Complete`` (Azure/azure-cli,
``command_modules/acr/_stream_utils.py``). The log never decides anything: the run's status does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import requests

from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.http_client import exchange
from aml_train.core.text import LinePieces, Piece

_TIMEOUT: Final = (5.0, 30.0)
_CHUNK: Final = 1 << 20
_LAST_READS: Final = 5
_COMPLETE: Final = "x-ms-meta-complete"


class RunLog:
    """Reads the log of one run.

    Args:
        session: sends the requests; the address is signed, so no token is sent.
        address: gives the address, which is valid for hours.
        listener: receives one remark if the log cannot be read.
    """

    def __init__(self, session: requests.Session, address: Callable[[], str], listener: Listener) -> None:
        self._session = session
        self._address = address
        self._listener = listener
        self._url = ""
        self._offset = 0
        self._pieces = LinePieces()
        self._complete = False
        self._reported = False

    def read(self, *, final: bool = False) -> list[Piece]:
        """Return what was written since the last call.

        Args:
            final: the run has ended: read until the log is complete, as far as it becomes so in a few requests.
        """
        found: list[Piece] = []
        tries = _LAST_READS if final else 1
        while tries > 0:
            data = self._range(self._offset, _CHUNK)
            if data is None:
                break
            self._offset += len(data)
            found += self._pieces.feed(data)
            if len(data) < _CHUNK:  # the end of what there is
                tries = 0 if self._complete and not data else tries - 1
        found += self._pieces.feed(b"", final=True) if final else []
        # Lines end with CR LF.
        return [Piece(one.text if one.more else one.text.rstrip("\r"), more=one.more) for one in found]

    def _range(self, offset: int, length: int) -> bytes | None:
        """Return at most *length* bytes from *offset* on; None if it cannot be read."""
        try:
            self._url = self._url or self._address()
            response = exchange(
                self._session,
                "GET",
                self._url,
                headers={"Range": f"bytes={offset}-{offset + length - 1}"},
                timeout=_TIMEOUT,
            )
        except (requests.RequestException, ServiceError) as error:
            self._report(getattr(error, "message", type(error).__name__))
            return None
        self._complete = self._complete or _COMPLETE in {name.lower() for name in response.headers}
        if response.status_code in (requests.codes.partial_content, requests.codes.ok):
            content: bytes = response.content
            return (
                content
                if response.status_code == requests.codes.partial_content
                else content[offset : offset + length]
            )
        # 404: the run has no agent yet. 416: nothing new was written.
        if response.status_code in (requests.codes.not_found, requests.codes.requested_range_not_satisfiable):
            return b""
        if response.status_code == requests.codes.forbidden:
            self._url = ""  # the signature has expired
        self._report(f"storage answered {response.status_code}")
        return None

    def _report(self, problem: str) -> None:
        if not self._reported:
            self._reported = True
            self._listener(Notice(text=f"The build's log cannot be read now: {problem}. The build continues."))
