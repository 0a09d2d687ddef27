"""The pages of keys and events, from the JSON Schema and core/events.py.

``write`` puts all generated pages into docs/reference; tests/unit/scripts compares them with what this returns.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from aml_train.config.document import json_schema
from aml_train.core import checks, comparison, events, tables
from aml_train.image.dockerfile.ofed_releases import DOCA, MLNX_OFED, Known
from scripts.docs.commands import action, command_line
from scripts.docs.coverage import coverage_page
from scripts.docs.markdown import docstring, page, paragraph, paragraphs, table
from scripts.docs.python import python_page
from scripts.docs.stop import PAGE, stop_page

_FOLDER: Final = Path("docs/reference")
#: Values inside events, each in a section of its page.
_VALUES: Final = (
    events.TestFailure,
    events.LogTail,
    events.Traceback,
    checks.Finding,
    comparison.Comparison,
    comparison.Side,
    tables.Table,
)


def generated(root: Path) -> dict[Path, str]:
    """Return the text of every generated page, by its path in the repository."""
    return {
        Path("docs/emulator-coverage.md"): coverage_page(),
        _FOLDER / "action.md": action(root),
        _FOLDER / "command-line.md": command_line(),
        _FOLDER / "drivers.md": drivers_page(),
        _FOLDER / "events.md": events_page(),
        _FOLDER / "keys.md": keys_page(),
        _FOLDER / "python.md": python_page(),
        _FOLDER / "versions.md": versions_page(root),
        PAGE: stop_page(root),
    }


def write(root: Path) -> None:
    """Write every generated page."""
    for path, text in generated(root).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def keys_page() -> str:
    """Return the page of every key of aml-train.yml with its type and meaning."""
    schema = json_schema()
    intro = (
        "Every key of aml-train.yml, from the JSON Schema that `aml-train validate --schema` prints for editors. "
        "[Configuration](../configuration.md) explains them with examples. `NAME` is a name of your choice, `N` an "
        "item of a list; required keys are marked with *."
    )
    sections: list[str] = []
    for key, below in schema["properties"].items():
        rows = list(dict.fromkeys(_rows(key, below, required=key in schema.get("required", ()))))
        sections += [f"## {key}", table(("key", "type", "meaning"), rows)]
    return page("Keys of aml-train.yml", paragraph(intro), *sections)


def drivers_page() -> str:
    """Return the page of drivers with a known SHA-256, each with its source."""
    intro = (
        "Releases of `image.ofed` that need no `sha256`, because their digest is publicly known, and the public file that names it: "
        "the scripts by which Microsoft builds its HPC images, at the first commit that checks the digest. "
        "[The training image](../image.md#infiniband-drivers) explains the sources."
    )
    mlnx = [(version, os, *_digest(known)) for (version, os), known in MLNX_OFED.items()]
    doca = [(build, f"{os}, {machine}", *_digest(known)) for (build, os, machine), known in DOCA.items()]
    head = ("base", "SHA-256", "source")
    return page(
        "InfiniBand drivers",
        paragraph(intro),
        "## MLNX_OFED",
        paragraph("`MLNX_OFED_LINUX-VERSION-BASE-x86_64.tgz`, for `source: mlnx_ofed`."),
        table(("version", *head), mlnx),
        "## DOCA",
        paragraph(
            "`doca-host_BUILD-BASE_ARCHITECTURE.deb`, for `source: doca`. `version` is the build, or the release that it begins with."
        ),
        table(("build", *head), doca),
    )


def _digest(known: Known) -> tuple[str, str]:
    commit = known.source.rpartition("/blob/")[2].partition("/")[0]
    return f"`{known.sha256}`", f"[{commit}]({known.source})"


def versions_page(root: Path) -> str:
    """Return the page of required and tested versions of Python and packages."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    pythons = ", ".join(one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix))
    extras = [(name, one) for name, wanted in project.get("optional-dependencies", {}).items() for one in wanted]
    locked = "".join((root / "requirements" / name).read_text(encoding="utf-8") for name in ("dev.txt", "client.txt"))
    rows = []
    for extra, wanted in (*(("", one) for one in project["dependencies"]), *extras):
        requirement = Requirement(wanted)
        found = re.search(rf"(?im)^{re.escape(requirement.name)}==([^ ;]+)", locked)
        name = f"{requirement.name}" + (f" (extra `{extra}`)" if extra else "")
        rows.append((name, f"`{requirement.specifier}`", found[1] if found else ""))
    intro = (
        "Required is what the package accepts; tested is the version of the lock files in requirements/, with which "
        "every change is tested. [Install and upgrade](../install.md) has engines and systems."
    )
    return page(
        "Versions",
        paragraph(intro),
        paragraph(f"Python {project['requires-python']}, by the package's classifiers {pythons}."),
        table(("package", "required", "tested"), rows),
    )


def _rows(path: str, schema: Mapping[str, Any], *, required: bool) -> Iterator[tuple[str, str, str]]:
    if schema.get("description"):
        yield f"`{path}`" + ("*" if required else ""), _kind(schema), schema["description"]
    for name, below in schema.get("properties", {}).items():
        yield from _rows(f"{path}.{name}", below, required=name in schema.get("required", ()))
    for sign, other in (("N", "items"), ("NAME", "additionalProperties")):
        if isinstance(below := schema.get(other), dict):
            yield from _rows(f"{path}.{sign}", below, required=False)
    for choice in ("anyOf", "oneOf", "allOf"):
        for below in schema.get(choice, ()):
            yield from _rows(path, below, required=False)


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a schema's type in words: ``text, or list of mapping``."""
    kinds: list[str] = []
    for below in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds.extend(_own_kinds(below))
    return ", or ".join(dict.fromkeys(kinds))


def _own_kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in schema:
        yield ", ".join(f"`{_yaml(value)}`" for value in schema["enum"])
        return
    words = {"string": "text", "object": "mapping", "boolean": "true or false", "null": "empty"}
    kinds = schema.get("type", ())
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        item = _kind(schema.get("items", {})) if kind == "array" else ""
        yield f"list of {item}" if item else {**words, "array": "list"}.get(kind, kind)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def events_page() -> str:
    """Return the page of every event of ``--events`` with its fields."""
    intro = (
        "`aml-train run --events FILE` (also `attach`, `submit`, `image build`, `promote` and `rollback`) writes every "
        "event as one line of JSON, in ASCII, as it happens. `event` is the event's word, `at` the time in UTC (ISO 8601). Readers must ignore events and "
        "fields that they do not know: new ones may come with any version. `--json` prints the result alone."
    )
    stages = ", ".join(f"`{word}`" for word in typing.get_args(events.Stage))
    sources = ", ".join(f"`{word}`" for word in typing.get_args(events.Source))
    kinds = [one for one in _event_types() if one is not events.LogLines]
    parts = [
        paragraph(intro),
        paragraph(f"Stages: {stages}."),
        paragraph(f"Sources of log lines: {sources}."),
        "## Events",
        table(("event", "meaning"), ((f"[`{_word(one)}`](#{_word(one)})", _first(one)) for one in kinds)),
        *(part for one in kinds for part in _section(_word(one), one)),
        "## Values in events",
        *(part for one in _VALUES for part in _section(one.__name__, one, level="###")),
    ]
    return page("Events of `--events`", *parts)


def _event_types() -> list[type[events.Event]]:
    return [
        one
        for _, one in inspect.getmembers(events, inspect.isclass)
        if issubclass(one, events.Event) and one is not events.Event
    ]


def _word(kind: type[events.Event]) -> str:
    """Return the word of an event's class in the file of ``--events``."""
    words = typing.cast(property, events.Event.name).fget
    assert words is not None  # noqa: S101 - a property has a getter
    return str(words(object.__new__(kind)))


def _first(kind: type) -> str:
    return docstring((inspect.getdoc(kind) or "").split("\n\n")[0])


def _section(title: str, kind: type, level: str = "##") -> tuple[str, ...]:
    text, meanings = _documented(kind)
    rows = [(f"`{name}`", f"`{hint}`", default, meanings.get(name, "")) for name, hint, default in _fields(kind)]
    if kind is events.LogLine:
        rows.append(("`rank`", "`str`", "", "Only in a job's log: the process that wrote it."))
    head = ("field", "type", "default", "meaning")
    used = [index for index in range(len(head)) if index < 2 or any(row[index] for row in rows)]
    shown = table([head[index] for index in used], ([row[index] for index in used] for row in rows))
    return f"{level} {title}", paragraphs(docstring(text)), shown if rows else ""


def _documented(kind: type) -> tuple[str, dict[str, str]]:
    """Return a docstring's text, and the meaning of each of its ``Attributes:``."""
    text, _, attributes = (inspect.getdoc(kind) or "").partition("\nAttributes:\n")
    meanings: dict[str, str] = {}
    for names, meaning in re.findall(r"(?ms)^    (\w[\w, ]*): (.*?)(?=^    \w|\Z)", attributes):
        for name in names.split(", "):
            meanings[name] = docstring(" ".join(meaning.split()))
    return text, meanings


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    for one in dataclasses.fields(kind):
        if one.name == "at":
            continue
        hint = str(one.type).replace("datetime.datetime", "datetime")
        if one.default is not dataclasses.MISSING:
            yield one.name, hint, f"`{one.default!r}`"
        else:
            yield one.name, hint, "empty" if one.default_factory is not dataclasses.MISSING else ""
