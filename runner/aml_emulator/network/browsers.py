"""Which requests are answered on ports that browsers reach. Pure.

A page of another origin is given away by ``Origin`` or ``Sec-Fetch-Site`` (https://www.w3.org/TR/fetch-metadata/); one whose own name
was made to point at this machine (DNS rebinding), by its name in ``Host``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aml_emulator.network.proxy import Head


def is_foreign(head: Head, *, names: Collection[str] = (), is_page: bool = False) -> bool:
    """Return whether a page of another origin may have sent a request.

    Args:
        head: of the request.
        names: what the service is called besides loopback: names in lower case, and addresses.
        is_page: it answers pages of its own origin, and links to it from others, because nothing there changes anything.
    """
    if not _is_loopback(head.host) and head.host not in names:
        return True
    origin, site = head.header("origin"), head.header("sec-fetch-site")
    if not is_page:
        return origin is not None or site is not None
    if origin is not None and origin.lower() != f"http://{(head.header('host') or '').lower()}":
        return True
    follows_link = head.header("sec-fetch-mode") == "navigate" and head.header("sec-fetch-dest") == "document"
    return site not in (None, "none", "same-origin") and not follows_link


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
