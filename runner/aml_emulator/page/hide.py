"""Keep secrets off the page: the emulator's own, and what looks like one in what users wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from aml_emulator.identity.identity import Identity

HIDDEN = "•••"

_PATTERNS = (
    # The signature of a SAS: https://learn.microsoft.com/rest/api/storageservices/create-service-sas
    r"(?P<sas>(?:\b|%26)sig(?:=|%3D))[A-Za-z0-9%+/=_-]{16,}",
    r"(?P<key>\b(?:AccountKey|SharedAccessKey|client_secret|password)=)[^\s;&\"'<]+",
    # The user's part of an address.
    r"(?P<user>://)[^\s/@:\"'<]+:[^\s/@\"'<]+(?=@)",
    # A JSON Web Token: two parts that begin as JSON objects do in base64, and a signature.
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"\b(?:ghp|gho|ghs|ghu|github_pat)_[A-Za-z0-9_]{20,}",
)


def hider(identity: Identity) -> Callable[[str], str]:
    """Return a function that puts ``•••`` for every secret in a text, also in one that is escaped for HTML.

    Args:
        identity: whose secrets are hidden wherever they stand.
    """
    own = (identity.client_secret, identity.token_secret, identity.storage_key)
    words = "|".join(re.escape(secret) for secret in own if secret)
    pattern = re.compile("|".join((words, *_PATTERNS)) if words else "|".join(_PATTERNS), re.IGNORECASE)

    def put(match: re.Match[str]) -> str:
        kept = match["sas"] or match["key"] or match["user"] or ""
        return kept + HIDDEN

    return lambda text: pattern.sub(put, text)
