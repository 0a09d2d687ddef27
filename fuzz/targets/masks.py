"""Masks: no secret and no longer part of one gets through, in any chunks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from aml_train.core.masking import MASK, Masker, Scrubber, without_tokens
from aml_train.core.secrets import known_secrets, maskable, named_secret, without_identifiers
from fuzz.target import Target, require

_PART = 8
"""No beginning or end of a secret of so many characters may be shown, if the whole of it was written."""

_FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "url": lambda secret: quote(secret, safe=""),
    "hex": lambda secret: secret.encode().hex(),
    "json": lambda secret: json.dumps(secret)[1:-1],
    "base32": lambda secret: base64.b32encode(secret.encode()).decode(),
}


def seeds() -> Sequence[Any]:
    """Return secrets, a text that has them in some form, and the places of the cuts."""
    return [
        {
            "secrets": ["s3cr3t-T0ken!"],
            "pieces": ["a token: ", {"form": "plain"}, " and more\n"],
            "cuts": [9, 12, 20],
        },
        {
            "secrets": ["p@ss/w0rd+x="],
            "pieces": ["url=https://u:", {"form": "url"}, "@h\n", {"form": "base64"}],
            "cuts": [3],
        },
        {
            "secrets": ["abcdefgh12345678"],
            "pieces": [{"form": "hex"}, "\r\n", {"form": "json"}, "x", {"form": "base32"}],
            "cuts": [],
        },
        {
            "secrets": ["line one of it\nline two of it"],
            "pieces": ["x line one of it y\n", "line two of it\n"],
            "cuts": [5, 6, 7],
        },
        {"secrets": ['{"clientSecret": "q8Rxyzw-1"}'], "pieces": ["q8Rxyzw-1 ", "?sig=abc%2Fdef&x"], "cuts": [4]},
    ]


def _plain(secret: object) -> bool:
    """Return whether a text is a secret for which the strong property holds."""
    return (
        isinstance(secret, str)
        and maskable(secret)
        and secret == secret.strip()
        and len(secret.splitlines()) == 1
        and secret.isascii()
        and secret.isprintable()
        and "*" not in secret
        and not secret.lstrip().startswith(("{", "[", '"'))
    )


def check(value: Any) -> None:
    """Mask a text at once, in pieces, and through the stream's scrubber."""
    given = value if isinstance(value, dict) else {}
    secrets = (
        [one for one in given.get("secrets") or () if isinstance(one, str)]
        if isinstance(given.get("secrets"), list)
        else []
    )
    masker = Masker(secrets[:4])
    first = secrets[0] if secrets else ""
    written = ""
    fillers: list[str] = []
    forms: list[str] = []
    pieces = given.get("pieces") if isinstance(given.get("pieces"), list) else []
    for piece in pieces or ():
        if isinstance(piece, str):
            written += piece
            fillers.append(piece)
        elif isinstance(piece, dict) and str(piece.get("form")) in _FORMS and _plain(first):
            forms.append(_FORMS[str(piece["form"])](first))
            written += forms[-1]
    masked = masker.mask(written)
    require(
        masker.mask(masked) == masked or "sig=" in written.lower() or "*" in "".join(secrets),
        "masking twice is not the same",
    )
    without_tokens(written)
    for one in secrets:
        list(without_identifiers(one))
        named_secret(one)
    known_secrets({"INPUT_SET": written, "TOKEN": first}, identifiers=True)
    data = written.encode("utf-8", "surrogatepass")
    for across in (False, True):
        scrubber, out, start = Scrubber(masker, across=across), b"", 0
        cuts = given.get("cuts") if isinstance(given.get("cuts"), list) else []
        for cut in sorted(cut for cut in cuts or () if isinstance(cut, int) and 0 <= cut <= len(data)):
            out += scrubber.feed(data[start:cut])
            start = cut
        out += scrubber.feed(data[start:], final=True)
        whole = Scrubber(masker, across=across).feed(data, final=True)
        # The first letters of a secret that a line end divides may be shown already: that line is over.
        require(across or out == whole, "the cuts change what is masked")
        if _plain(first):
            joined = out.replace(b"\r", b"").replace(b"\n", b"") if across and len(first) >= _PART else out
            require(first.encode() not in joined, "the secret is shown")
    if not _plain(first):
        return
    if len(first) >= _PART:
        require(not any(form in masked for form in forms), "a form of the secret is shown")
    rest = "\0".join(fillers)
    if len(first) >= _PART and forms and first in written:
        for part in (first[:_PART], first[-_PART:]):
            require(part not in masked or part in rest or part in MASK, f"a part of the secret is shown: {part!r}")


TARGET = Target(
    kind="json",
    reads=("aml_train.core.masking", "aml_train.core.secrets"),
    seeds=seeds,
    check=check,
    words=(
        *_FORMS,
        "form",
        "pieces",
        "cuts",
        "?sig=",
        "&sig=",
        "AccountKey=",
        "SharedAccessKey=",
        "%2F",
        "%25",
        "\n",
        "\r\n",
        "&amp;",
        "\\u0041",
    ),
)
