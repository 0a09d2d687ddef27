"""Write a recorded run as a scrubbed bundle: a ZIP file of JSON, bounded.

The bundle is made in memory, scrubbed, cut, proved and then written as a whole. It is cut in this order: answers that are like the
one before (nothing is lost), texts of logs and files (never kept: their lengths are), requests of builds and pushes, and at last the
middle of a row of equal requests. Statuses, metrics with rules, tags of ours and stages are never cut.
"""

from __future__ import annotations

import dataclasses
import getpass
import io
import json
import platform
import re
import socket
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

from aml_train.config import Config
from aml_train.core.errors import InvalidError
from aml_train.core.masking import Masker
from aml_train.core.replacing import replace_file
from aml_train.core.scrub import Scrubber, unexplained
from aml_train.core.secrets import known_secrets, maskable
from aml_train.core.text import size
from aml_train.core.version import __version__
from aml_train.pipeline.record.exchange import Exchange
from aml_train.pipeline.record.recorder import Recorder, traceback_of
from aml_train.pipeline.record.values import encode
from aml_train.pipeline.record.words import product_words

FORMAT: Final = 2
#: Bytes of the JSON of a bundle, before it is compressed.
MOST: Final = 16 << 20
#: Files of a code folder that the plan lists.
_MOST_FILES: Final = 2000
_PACKAGES: Final = (
    "aml-train",
    "azure-ai-ml",
    "azure-core",
    "azure-identity",
    "azure-storage-blob",
    "azureml-core",
    "msal",
    "requests",
    "urllib3",
)
_METRICS: Final = re.compile(r"/metric/|/mlflow/")
_SAS: Final = re.compile(r"[?&]sig=([^&\s\"'<>]+)")
_README: Final = """A recorded run of aml-train, scrubbed: no secrets, ids, names and texts of the user.
Placeholders such as x12 stand for one text each, everywhere.
bundle.json: versions, options, the ending. config.json, plan.json: as they were resolved.
events.json: what the run reported. calls.json: what its target did. exchange.json: requests, and the shape of their answers.
"""


class LeakError(Exception):
    """The second pass found something that it cannot explain."""


def write_bundle(path: Path, recorder: Recorder) -> str:
    """Write the bundle as a whole; return a few words on its contents.

    Raises:
        LeakError: it would hold a text that is neither ours nor a placeholder.
        InvalidError: *path* cannot be written.
    """
    content, exchanges = make_bundle(recorder)
    replace_file(path.absolute(), content)
    return f"{exchanges} requests and {len(recorder.seen.events)} events in {size(len(content))}"


def make_bundle(recorder: Recorder) -> tuple[bytes, int]:
    """Return the bytes of the bundle, and how many requests it has.

    Raises:
        LeakError: as in :func:`write_bundle`.
    """
    seen, exchanges = recorder.seen, list(recorder.tap.exchanges)
    masker = _masker(recorder, exchanges)
    kept = _kept(recorder, exchanges)
    names = _metric_names(seen.config)
    words = product_words() | {token.lower() for text in (*kept, *names) for token in re.findall(r"[^\W_]+", text)}
    scrubber = Scrubber(words=words, terms=_terms(recorder, exchanges), masker=masker)
    documents: dict[str, Any] = {
        "bundle.json": scrubber.json(_facts(recorder)),
        "config.json": scrubber.json(_bounded(encode(seen.config))),
        "plan.json": scrubber.json(_bounded(encode(seen.prepared.plan if seen.prepared else None))),
        "options.json": scrubber.json(encode(seen.options)),
        "calls.json": scrubber.json(seen.calls),
        "events.json": scrubber.json(seen.events),
        "exchange.json": [_scrubbed(one, scrubber, names) for one in exchanges],
    }
    cut = _cut(documents)
    documents["bundle.json"]["cut"] = cut
    if (length := _size(documents)) > MOST:
        raise InvalidError(f"it would have {size(length)}, and may have {size(MOST)}.")
    _prove(documents, words, scrubber, masker)
    return _zipped(documents), len(documents["exchange.json"])


def _prove(documents: Mapping[str, Any], words: Collection[str], scrubber: Scrubber, masker: Masker) -> None:
    leaks = unexplained(documents, words=words, originals=scrubber.originals, terms=scrubber.terms, masker=masker)
    if leaks:
        raise LeakError(
            f"{len(leaks)} places may hold a secret or a name, the first one {leaks[0]}. Please report this line."
        )


def _masker(recorder: Recorder, exchanges: Iterable[Exchange]) -> Masker:
    """Return the masker of all secrets: of environment, configuration and requests."""
    seen = recorder.seen
    secrets = known_secrets(seen.environ, identifiers=True)
    if seen.config is not None:
        secrets |= {*seen.config.secrets(seen.environ)}
    for one in exchanges:
        secrets.add(one.authorization.partition(" ")[2])
        secrets.update(unquote(found) for found in _SAS.findall(one.url))
    return Masker(secret for secret in secrets if maskable(secret))


def _kept(recorder: Recorder, exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield kept facts of machine and libraries: versions, errors, frames."""
    yield from (platform.system(), platform.machine(), platform.python_implementation(), *_versions().values())
    yield from (name for one in exchanges for name in one.error)
    failure = recorder.seen.failure
    for part in traceback_of(failure)["chain"] if failure is not None else ():
        yield part["type"]
        yield from (frame[name] for frame in part["frames"] for name in ("file", "function"))


def _metric_names(config: Config | None) -> frozenset[str]:
    """Return the metrics that rules name; those of nodes also without the node."""
    names = {rule.metric for rule in config.gate} if config is not None else set()
    return frozenset({*names, *(name.rpartition("/")[2] for name in names)})


def _terms(recorder: Recorder, exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield the names that are replaced as a whole."""
    seen = recorder.seen
    yield from _of_this_machine()
    hosts = {urlsplit(one.url).hostname or "" for one in exchanges}
    yield from {host.partition(".")[0] for host in hosts}
    if seen.config is not None:
        target = seen.config.target
        yield from (text for name in ("subscription_id", "resource_group", "workspace", "registry", "compute", "registry_user")
                    if isinstance(text := getattr(target, name, None), str))  # fmt: skip
        yield seen.config.directory.name
        if seen.config.model is not None:
            yield seen.config.model.name
    if seen.prepared is None:
        return
    plan = seen.prepared.plan
    yield plan.job.stem
    document = plan.job.document
    yield from (text for name in ("name", "experiment_name") if isinstance(text := document.get(name), str))
    if plan.origin is not None:
        yield from (text for text in (plan.origin.repository, plan.origin.branch) if text)
    if plan.image is not None:
        yield plan.image.repository


def _of_this_machine() -> Iterator[str]:
    yield socket.gethostname()
    yield Path.home().name
    try:
        yield getpass.getuser()
    except (OSError, KeyError):  # a process whose user has no name
        return


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = __version__ if name == "aml-train" else version(name)
        except PackageNotFoundError:
            continue
    return found


def _facts(recorder: Recorder) -> dict[str, Any]:
    seen = recorder.seen
    finished = next((one for one in reversed(seen.events) if one["event"] == "run-finished"), None)
    ending = {key: finished[key] for key in ("status", "exit_code", "message", "hint")} if finished else None
    if finished is None and seen.error is not None:
        ending = {"status": seen.error.status, "exit_code": seen.error.exit_code, "message": seen.error.message}
    return {
        "format": FORMAT,
        "command": seen.command,
        "versions": _versions(),
        "platform": {
            "system": platform.system(),
            "machine": platform.machine(),
            "implementation": platform.python_implementation(),
        },
        "options": _changed_options(recorder),
        "variables": sorted(name for name in seen.environ if _matters(name)),
        "ending": ending,
        "interruptions": [_moment(one) for one in seen.interruptions],
        "traceback": traceback_of(seen.failure) if seen.failure is not None else None,
        "seconds": recorder.now(),
    }


def _moment(seconds: float) -> float:
    """Return seconds as they are written.

    Moments of requests and interruptions are rounded alike: their order decides in a replay.
    """
    return round(seconds, 6)


def _changed_options(recorder: Recorder) -> list[str]:
    options = recorder.seen.options
    if options is None:
        return []
    return sorted(
        one.name for one in dataclasses.fields(options) if getattr(options, one.name) != one.default and one.init
    )


def _matters(name: str) -> bool:
    """Return whether a variable can change what aml-train does."""
    prefixes = ("AML_", "AZURE_", "AML_TRAIN_", "DOCKER_", "ARM_", "IDENTITY_", "MSI_")
    return name.startswith(prefixes) or name.upper() in {
        "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "CI",
        "GITHUB_ACTIONS", "TMPDIR",
    }  # fmt: skip


def _bounded(value: Any) -> Any:
    """Return a plan with a bounded number of files."""
    if isinstance(value, list):
        return [_bounded(one) for one in value]
    if not isinstance(value, dict):
        return value
    # The secrets that the runner gives to builds are no part of a plan.
    found = {key: _bounded(one) for key, one in value.items() if key != "secret_access"}
    entries = found.get("entries")
    if isinstance(entries, dict) and len(entries.get("$tuple") or ()) > _MOST_FILES:
        found["entries"] = {"$tuple": entries["$tuple"][:_MOST_FILES]}
    return found


def _scrubbed(one: Exchange, scrubber: Scrubber, metrics: Collection[str]) -> dict[str, Any]:
    address = scrubber.text(unquote(one.url))
    found: dict[str, Any] = {
        "method": one.method,
        "address": address,
        "began": _moment(one.began),
        "ended": _moment(one.ended),
        "main": one.main,
        "during": one.during,
        "status": one.status,
        "headers": {name: scrubber.text(unquote(value)) for name, value in one.headers.items()},
        "error": list(one.error),
    }
    if one.status is not None:
        found["body"] = _body(one, scrubber, metrics if _METRICS.search(one.url) else None)
    return found


def _body(one: Exchange, scrubber: Scrubber, metrics: Collection[str] | None) -> dict[str, Any]:
    """Return the shape of a body: values of JSON and XML, the length of others."""
    if not one.body:
        return {"bytes": one.length, "lines": 0}
    kind = one.headers.get("content-type", "")
    if "json" in kind or (one.body[:1] in b"{[" and "octet" not in kind):
        try:
            return {"json": scrubber.json(json.loads(one.body), metrics=metrics)}
        except (ValueError, RecursionError):
            pass
    if "xml" in kind:
        try:
            root = ET.fromstring(one.body)  # noqa: S314 - the answer of a storage, of bounded size; expat bounds entities
        except ET.ParseError:
            pass
        else:
            return {"xml": _element(root, scrubber)}
    return {"bytes": one.length, "lines": one.body.count(b"\n")}


def _element(element: ET.Element, scrubber: Scrubber) -> list[Any]:
    """Return an element as its name, attributes, text and children."""
    attributes = {scrubber.text(name): scrubber.text(value) for name, value in element.attrib.items()}
    children = [_element(child, scrubber) for child in element]
    return [scrubber.text(element.tag), attributes, scrubber.text((element.text or "").strip()), children]


def _cut(documents: dict[str, Any]) -> dict[str, Any]:
    """Cut the documents to their bound; return what was cut."""
    exchanges: list[dict[str, Any]] = documents["exchange.json"]
    last: dict[tuple[str, str], tuple[int, str]] = {}
    same = 0
    for number, one in enumerate(exchanges):
        if "body" not in one:
            continue
        key, text = (one["method"], one["address"]), json.dumps(one["body"], sort_keys=True)
        before = last.get(key)
        if before is not None and before[1] == text and len(text) > 80:
            one["body"] = {"same": before[0]}
            same += 1
        else:
            last[key] = (number, text)
    cut: dict[str, Any] = {"repeated": same, "log_events": 0, "of_builds": 0, "in_between": 0}
    if _size(documents) > MOST:
        events: list[dict[str, Any]] = documents["events.json"]
        logs = [one for one in events if one["event"] in ("log-line", "log-lines")]
        for one in logs:
            one.clear()
            one["event"] = "cut"
        cut["log_events"] = len(logs)
    if _size(documents) > MOST:
        for one in exchanges:
            if one["during"] and one.get("body"):
                one["body"] = {"bytes": 0, "lines": 0}
                cut["of_builds"] += 1
    if _size(documents) > MOST:
        cut["in_between"] = _without_middles(documents)
    return cut


def _without_middles(documents: dict[str, Any]) -> int:
    """Leave out answers between the first and the last ones of equal requests."""
    exchanges: list[dict[str, Any]] = documents["exchange.json"]
    for one in exchanges:  # what refers to another one is written out, once
        if "same" in one.get("body", {}):
            one["body"] = exchanges[one["body"]["same"]]["body"]
    places: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(exchanges):
        places.setdefault((one["method"], one["address"]), []).append(number)
    dropped = 0
    for keep in (100, 20, 4):
        left = {number for found in places.values() for number in (*found[:keep], *found[-keep:])}
        documents["exchange.json"] = [one for number, one in enumerate(exchanges) if number in left]
        dropped = len(exchanges) - len(left)
        if _size(documents) <= MOST:
            break
    return dropped


def _size(documents: Mapping[str, Any]) -> int:
    return sum(len(json.dumps(one)) for one in documents.values())


def _zipped(documents: Mapping[str, Any]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in [("README.txt", _README), *documents.items()]:
            text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()
