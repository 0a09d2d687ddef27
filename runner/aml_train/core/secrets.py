"""Which values are secrets, and the disguises in which they are written. Pure."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

_SHORTEST: Final = 4
_SHORTEST_DERIVED: Final = 6
#: How the name of a secret ends: with the word itself, and perhaps with which of several it is. A name that only holds such a word,
#: as ``SSH_KEY_NAME`` or ``MAX_TOKENS``, says something about a secret, or nothing.
_SECRET_NAME: Final = re.compile(
    r"""(?:
      (?:TOKEN|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASES?|PASSCODE|CREDENTIALS?|CREDS|CONNECTION[_.-]?STRINGS?)
    | (?:^|[_.-]|API|ACCESS|ACCOUNT|PRIVATE|SECRET|SHARED|SIGNING|SSH|STORAGE|ENCRYPTION|MASTER|DEPLOY)KEY
    | (?-i:(?<=[a-z0-9])Key)
    | (?:API|ACCESS|AUTH|REFRESH|SSH)[_.-]?(?:TOKENS|KEYS)
    | (?:^|[_.-])(?:SAS|PAT|JWT|PSK|DSN) | [_.-]PWD
    )(?:[_.-](?:[0-9]+|PROD(?:UCTION)?|DEV(?:ELOPMENT)?|TEST|STAGING|PRIMARY|SECONDARY|OLD|NEW|BASE(?:64)?|JSON|PEM|VALUE))*\Z""",
    re.I | re.X,
)
#: Names that end like that, and mean what everybody may know: a public key, the name of a field, a token of a language model.
_PUBLIC_NAME: Final = re.compile(
    r"GPG_KEY|(?:.*[_.-])?(?:PUBLIC|METRIC|SORT|LABEL|FEATURE|PARTITION|CACHE|GROUP|INDEX|FOREIGN|ROUTING)[_.-]?KEY"
    r"|(?:.*[_.-])?(?:BOS|EOS|PAD|UNK|MASK|SEP|CLS)[_.-]TOKEN",
    re.I,
)
#: Secrets whose names do not say so: Docker's logins, the address at which the runner gives tokens.
_KNOWN: Final = frozenset({"DOCKER_AUTH_CONFIG", "ACTIONS_ID_TOKEN_REQUEST_URL"})
#: Identifiers are hidden in the log, as users expect, and kept in outputs: a studio link without them leads nowhere.
_IDENTIFIERS: Final = frozenset(
    name
    for words in (("CLIENT", "ID"), ("TENANT", "ID"), ("SUBSCRIPTION", "ID"))
    for name in ("AZURE_" + "_".join(words), "INPUT_" + "-".join(words), "-".join(words).lower())
)
#: The same in the JSON of ``AZURE_CREDENTIALS``.
_IDENTIFIER_FIELDS: Final = frozenset({"clientId", "tenantId", "subscriptionId"})
#: In a JSON secret, fields of these names are no secrets (the format of ``AZURE_CREDENTIALS``).
_PUBLIC_FIELDS: Final = re.compile(r".*(Url|Uri|Endpoint|endpoint)$|type$|\$schema$")
#: The password of an address, as in ``DOCKER_HOST`` and ``HTTPS_PROXY`` (RFC 3986, 3.2.1).
_PASSWORD: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_TRIVIAL: Final = frozenset(
    {
        "true",
        "false",
        "null",
        "none",
        "undefined",
        "local",
        "main",
        "master",
        "test",
        "default",
        "https",
        "http",
        "latest",
    }
)


def maskable(value: str) -> bool:
    """Return whether masking *value* hides a secret, rather than every second word."""
    return len(value) >= _SHORTEST and value.lower() not in _TRIVIAL and sum(c.isalnum() for c in value) >= _SHORTEST


def named_secret(name: str) -> bool:
    """Return whether a variable or an input of this name holds a secret."""
    if name in _IDENTIFIERS or name in _KNOWN:
        return True
    return bool(_SECRET_NAME.search(name)) and not _PUBLIC_NAME.fullmatch(name)


def without_secret_values(variables: Mapping[str, str]) -> dict[str, str]:
    """Return *variables* with ``***`` as the values of those that hold secrets."""
    return {name: "***" if named_secret(name) else value for name, value in variables.items()}


def identifier(name: str) -> bool:
    """Return whether a variable of this name holds an identifier."""
    return name in _IDENTIFIERS


def known_secrets(environment: Mapping[str, str], *, identifiers: bool) -> set[str]:
    """Return the values in *environment* whose names say that they are secret.

    The values of the input ``set`` are included, and the passwords of addresses in all values.

    Args:
        environment: the process's environment; inputs are part of it.
        identifiers: whether the identifiers of a subscription, tenant and client count.
    """
    values = {
        value
        for name, value in (*environment.items(), *_set(environment.get("INPUT_SET", "")))
        if named_secret(name) and (identifiers or name not in _IDENTIFIERS)
    }
    if not identifiers:
        values = {part for value in values for part in without_identifiers(value)}
    passwords = {found for value in environment.values() if "://" in value for found in _PASSWORD.findall(value)}
    return values | passwords | set(map(unquote, passwords))


def _set(lines: str) -> Iterator[tuple[str, str]]:
    """Yield the last part of each key in ``key=value`` lines, and the value."""
    for line in lines.splitlines():
        key, _, value = line.strip().partition("=")
        yield key.rpartition(".")[2], value


def without_identifiers(value: str) -> Iterator[str]:
    """Yield *value*; of JSON of ``AZURE_CREDENTIALS``, the secret fields."""
    document: Any = None
    if value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            document = json.loads(value)
    if isinstance(document, dict) and _IDENTIFIER_FIELDS & document.keys():
        hidden = {key: inner for key, inner in document.items() if key not in _IDENTIFIER_FIELDS}
        yield from _json_texts(json.dumps(hidden))
    else:
        yield value


def derive(secret: str) -> set[str]:
    """Return all that must be masked for *secret*: itself and its encoded forms.

    Its lines, the fields of JSON, the signature of a SAS address; each of them also in base64 (at all offsets that it can have in a
    longer text), in hexadecimal digits, URL-quoted, as JSON and JSON in JSON, and with HTML's entities.
    """
    found: set[str] = set()
    for part in parts_of(secret):
        found.add(part)
        found.update(form for form in _forms(part) if len(form) >= _SHORTEST_DERIVED and maskable(form))
    return found


def plain_forms(secret: str) -> set[str]:
    """Return the lines of *secret*, as they are and URL-quoted, even ordinary words.

    Lines of fewer than four characters are left out: without them a log is illegible.
    """
    lines = {line.strip() for line in secret.splitlines()}
    return {form for line in lines for form in (line, quote(line, safe="")) if len(form) >= _SHORTEST}


def parts_of(secret: str) -> set[str]:
    """Return the texts that are secret by themselves. None holds a line end."""
    waiting, parts = [secret], set[str]()
    while waiting:
        text = waiting.pop()
        lines = [line.strip() for line in text.splitlines()]
        fields = list(_json_texts(text))
        signatures = [m[1] for m in re.finditer(r"(?:^|[?&;])(?:sig|AccountKey|SharedAccessKey)=([^&;\s]+)", text)]
        fresh = {*lines, *fields, *signatures, *map(unquote, signatures)} - parts - {text}
        waiting += [one for one in fresh if maskable(one)]
        if maskable(text) and len(lines) == 1:
            parts.add(lines[0])
    return {part for part in parts if maskable(part)}


def _json_texts(text: str) -> Iterator[str]:
    """Yield every text in the JSON that *text* may be, except fields of addresses."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return
    try:
        waiting: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [inner for key, inner in value.items() if not _PUBLIC_FIELDS.match(key)]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            yield value


def _forms(part: str) -> Iterator[str]:
    data = part.encode("utf-8", "surrogatepass")
    yield from _base64(data)
    for safe in ("", "/"):
        quoted = quote(part, safe=safe, errors="replace")
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    yield quote_plus(part, errors="replace")
    for escaped in (json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]):
        yield escaped
        yield json.dumps(escaped)[1:-1]
        # As Go and .NET write JSON that may be in HTML.
        yield escaped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    yield repr(part)[1:-1]
    for entities in (html.escape(part), html.escape(part, quote=False)):
        yield entities
        yield entities.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    if len(data) >= 8:
        yield data.hex()
        yield data.hex().upper()


def _base64(data: bytes) -> Iterator[str]:
    """Yield *data* in base64 (RFC 4648, both alphabets), at each possible offset."""
    for offset in range(3):
        # The first characters depend on what is before, the last one on what follows: the middle is sure.
        encoded = base64.b64encode(b"\x00" * offset + data).decode().rstrip("=")
        end = len(encoded) - (1 if (offset + len(data)) % 3 else 0)
        for form in (encoded[(0, 2, 3)[offset] : end], encoded if offset == 0 else ""):
            yield form
            yield form.replace("+", "-").replace("/", "_")
