"""The server's name in the first message of a TLS client. Pure."""

from __future__ import annotations

import ssl
from typing import Any, Final

MAX_HELLO_BYTES: Final = 64 * 1024
"""Longer than any client's first message, post-quantum keys included."""

UNRECOGNIZED_NAME: Final = bytes((21, 3, 3, 0, 2, 2, 112))
"""The alert of a server that is not the named one: https://www.rfc-editor.org/rfc/rfc6066#section-3."""


class NoHelloError(ValueError):
    """Bytes that are not the first message of a TLS client."""


def server_name(data: bytes) -> str | None:
    """Return the name that a client asks for; empty if it names none.

    None if *data* is only the beginning of its message.

    OpenSSL reads the message: this end of the handshake stops where it would choose a certificate.

    Raises:
        NoHelloError: *data* is something else, or has more than MAX_HELLO_BYTES.
    """
    found: list[str] = []

    def named(_connection: Any, name: str | None, _context: ssl.SSLContext) -> int:
        found.append(name or "")
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = named
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    handshake = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        if len(data) > MAX_HELLO_BYTES:
            raise NoHelloError("the first message does not end") from None
        return None
    except ssl.SSLError as error:
        if not found:
            raise NoHelloError("not the first message of a TLS client") from error
    return found[0]
