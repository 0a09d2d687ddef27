"""Who may see the page: a browser on this machine that somebody looks at, and no page of somebody else's. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from aml_emulator.network.proxy import Head, read_target

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""The names under which the page answers. Any other name may be one that was made to point here (DNS rebinding)."""

METHODS = ("GET", "HEAD")

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Sequence[tuple[str, str]] = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""What every answer of the page carries: nothing from elsewhere is loaded, and nobody frames or embeds it."""


def refusal(head: Head) -> tuple[int, str] | None:
    """Return why a request is not answered, as status and reason, or None if it may be.

    A browser says in ``Sec-Fetch-Site`` where a request comes from (https://www.w3.org/TR/fetch-metadata/). Following a
    link from elsewhere is fine, because nothing on the page changes anything; being embedded or fetched is not.
    """
    headers = {name.lower(): value for name, value in head.headers}
    host = headers.get("host", "")
    target = read_target(f"//{host}")
    if target is None or target.host not in LOOPBACK:
        return 403, "This page answers as localhost, 127.0.0.1 or [::1] only."
    if head.method not in METHODS:
        return 405, "This page is for reading: GET and HEAD only."
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return 403, "This page does not answer other pages."
    site = headers.get("sec-fetch-site", "none")
    navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if site not in ("none", "same-origin") and not navigates:
        return 403, "This page does not answer other pages."
    return None
