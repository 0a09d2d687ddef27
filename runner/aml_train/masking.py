"""Secrets and their masks: which values must not be shown, in which disguises, and the filter over all that is written.

GitHub masks what ``::add-mask::`` named; this filter does the same once more, because the command comes too late for what is
already on its way, and nothing outside GitHub obeys it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import quote, quote_plus, unquote

MASK: Final = "***"
_SHORTEST: Final = 4
_SHORTEST_DERIVED: Final = 6
_SECRET_NAME: Final = re.compile(
    r"TOKEN(?!I[SZ])|SECRET|PASSWORD|PASSWD|PASSPHRASE|KEY|CREDENTIAL|CREDS|CONNECTION.?STRING|(?:^|[_-])SAS(?:$|[_-])",
    re.I,
)
#: Azure's variables count as secret, but for those that only say how its command line behaves.
_AZURE: Final = re.compile(r"AZURE_(?!CONFIG_DIR|EXTENSION_DIR|DEVOPS_CACHE_DIR|HTTP_USER_AGENT|CORE_|ENVIRONMENT$)")
#: Names that hold such a word and are no secrets: a public key's fingerprint in Python's own image, and paths.
_PUBLIC: Final = frozenset({"GPG_KEY", "INPUT_SECRET-PATH", "AML_TRAIN_SECRET_PATH"})
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
_SIGNATURE: Final = re.compile(r"([?&]sig=)[^&\s\"'<>]+", re.I)


def maskable(value: str) -> bool:
    """Tell whether masking *value* hides something, rather than every brace and every second word."""
    return len(value) >= _SHORTEST and value.lower() not in _TRIVIAL and sum(c.isalnum() for c in value) >= _SHORTEST


def named_secret(name: str) -> bool:
    """Tell whether a variable or an input of this name holds a secret."""
    return name not in _PUBLIC and bool(_SECRET_NAME.search(name) or _AZURE.match(name) or name in _IDENTIFIERS)


def identifier(name: str) -> bool:
    """Tell whether a variable of this name holds an identifier, which is hidden in the log alone."""
    return name in _IDENTIFIERS


def known_secrets(environment: Mapping[str, str], *, identifiers: bool) -> set[str]:
    """Return the values in *environment* whose names say that they are secret, those that the input ``set`` writes included.

    Args:
        environment: the process's environment; inputs are part of it.
        identifiers: whether the identifiers of a subscription, tenant and client count.
    """
    values = {
        value
        for name, value in (*environment.items(), *_set(environment.get("INPUT_SET", "")))
        if named_secret(name) and (identifiers or name not in _IDENTIFIERS)
    }
    if identifiers:
        return values
    return {part for value in values for part in _but_identifiers(value)}


def _set(lines: str) -> Iterator[tuple[str, str]]:
    """Yield the last part of each key in ``key=value`` lines, such as a variable's name, and the value."""
    for line in lines.splitlines():
        key, _, value = line.strip().partition("=")
        yield key.rpartition(".")[2], value


def _but_identifiers(value: str) -> Iterator[str]:
    """Yield *value*; of the JSON of ``AZURE_CREDENTIALS`` the fields that identify nobody."""
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
    """Return everything that must be masked for *secret*: itself and the disguises in which it is written.

    Its lines, the fields of JSON, the signature of a SAS address; each of them also in base64 (both alphabets, at all three
    offsets that it can have in a longer text), URL-quoted, and as JSON writes it.
    """
    found: set[str] = set()
    for part in parts_of(secret):
        found.add(part)
        found.update(form for form in _forms(part) if len(form) >= _SHORTEST_DERIVED and maskable(form))
    return found


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
    """Yield every text in the JSON that *text* may be, but for fields that hold addresses."""
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
    for offset in range(3):
        # The first characters depend on what stands before, the last one on what follows: the middle is sure.
        encoded = base64.b64encode(b"\x00" * offset + data).decode().rstrip("=")
        end = len(encoded) - (1 if (offset + len(data)) % 3 else 0)
        for form in (encoded[(0, 2, 3)[offset] : end], encoded if offset == 0 else ""):
            yield form
            yield form.replace("+", "-").replace("/", "_")
    for quoted in (
        quote(part, safe="", errors="replace"),
        quote(part, safe="/", errors="replace"),
        quote_plus(part, errors="replace"),
    ):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    for escaped in (json.dumps(part), json.dumps(part, ensure_ascii=False)):
        yield escaped[1:-1]
    yield repr(part)[1:-1]
    data_of_a_command = part.replace("%", "%25")
    yield data_of_a_command
    yield data_of_a_command.replace(":", "%3A").replace(",", "%2C")  # as a command's property
    yield binascii.hexlify(data).decode() if len(data) >= 8 else ""


class Masker:
    """Replaces secrets by ``***`` in texts.

    Args:
        secrets: values as they are; what is derived from them is masked as well.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._patterns: dict[bytes, None] = {}
        self._heads: dict[int, list[bytes]] = {}
        #: What GitHub must be told of the secrets that were given here.
        self.told = [part for secret in sorted(secrets) for part in self.add(secret)]

    def add(self, secret: str) -> list[str]:
        """Mask *secret* from now on. Other threads may be masking meanwhile.

        Returns:
            what is new and must be told to GitHub. It derives encoded forms itself (``ValueEncoders.cs``).
        """
        with self._lock:
            new = [part for part in sorted(parts_of(secret)) if _encode(part) not in self._patterns]
            fresh = [pattern for pattern in sorted(map(_encode, derive(secret))) if pattern not in self._patterns]
            heads = dict(self._heads)
            for pattern in fresh:
                heads[pattern[0]] = [*heads.get(pattern[0], ()), pattern]
            # What others are reading stays as it is.
            self._heads = heads
            # The shortest first: a line is looked through for what fits into it, and tokens are longer than most lines.
            self._patterns = dict.fromkeys(sorted({*self._patterns, *fresh}, key=len))
        return new

    @property
    def longest(self) -> int:
        """Length in bytes of the longest pattern."""
        return len(next(reversed(self._patterns), b""))

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return where *data* holds secrets, in order; those that overlap are one."""
        found: list[tuple[int, int]] = []
        for pattern in self._patterns:
            if len(pattern) > len(data):
                break
            start = data.find(pattern)
            while start >= 0:
                end = start + len(pattern)
                # One that repeats itself ("aaaa") is one span, however long the text.
                after = data.find(pattern, start + 1)
                while 0 <= after < end:
                    end = after + len(pattern)
                    after = data.find(pattern, after + 1)
                found.append((start, end))
                start = after
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def unfinished(self, data: bytes) -> int:
        """Return where the longest ending of *data* starts that may grow into a secret; its length where none does."""
        if not data or data[-1:] == b"\n":  # no pattern holds a line end
            return len(data)
        first = max(0, len(data) - self.longest + 1, data.rfind(b"\n") + 1)
        for start in range(first, len(data)):
            tail = data[start:]
            if any(
                pattern.startswith(tail) for pattern in self._heads.get(data[start], ()) if len(pattern) > len(tail)
            ):
                return start
        return len(data)

    def mask(self, text: str) -> str:
        """Return *text* with its secrets, and the signatures of SAS addresses, replaced."""
        data = without_signatures(text).encode("utf-8", "surrogatepass")
        out, position = bytearray(), 0
        for start, end in self.spans(data):
            out += data[position:start] + MASK.encode()
            position = end
        return (bytes(out) + data[position:]).decode("utf-8", "surrogatepass")


def without_signatures(text: str) -> str:
    """Return *text* with the signatures of SAS addresses replaced."""
    # Most text has none, and a search for the fixed part is many times as quick.
    return _SIGNATURE.sub(rf"\1{MASK}", text) if "sig=" in text or ("=" in text and "sig=" in text.lower()) else text


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


class Sink(Protocol):
    """Where bytes go in the end."""

    def write(self, data: bytes, /) -> object:
        """Write all of *data*."""

    def flush(self) -> None:
        """Hand on what was written."""


class Scrubber:
    """Takes secrets out of a stream of bytes, also one that arrives in pieces.

    At most the length of the longest secret is held back, and nothing after the end of a line.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""
        self._covered = 0  # how much of what is held back belongs to a mask that is already written

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """Return what of *data*, and of what was held back before, may be shown now; with *final* all of it."""
        data = self._held + data
        keep = len(data) if final else self._masker.unfinished(data)
        spans = self._masker.spans(data)
        covered = self._covered
        if covered:
            while spans and spans[0][0] < covered:
                covered = max(covered, spans.pop(0)[1])
        out, position = bytearray(), covered
        for start, end in spans:
            if start >= keep:
                break
            out += data[position:start] + MASK.encode()
            position = end
        out += data[position:keep]
        self._held = data[keep:]
        self._covered = max(0, position - keep)
        return bytes(out)


class MaskingStream(io.RawIOBase):
    """A stream of bytes that passes everything on to *sink*, but for secrets; see :class:`Scrubber`."""

    def __init__(self, sink: Sink | BinaryIO, masker: Masker) -> None:
        super().__init__()
        self._sink = sink
        self._scrubber = Scrubber(masker)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        new = bytes(data)
        self._pass_on(new, final=False)
        return len(new)

    def flush(self) -> None:
        """Flush the sink. What may yet grow into a secret stays here."""
        if not self.closed:
            self._sink.flush()

    def close(self) -> None:
        """Write what was held back; the sink stays open."""
        if not self.closed:
            self._pass_on(b"", final=True)
            self._sink.flush()
        super().close()

    def _pass_on(self, data: bytes, *, final: bool) -> None:
        out = self._scrubber.feed(data, final=final)
        if out:
            self._sink.write(out)
            # A buffered writer around this stream hands its own bytes on, and asks for no more.
            self._sink.flush()
