"""Bad input → the faults: their places, and what they name.

Most cases are in bad_input.txt; those that are no plain text are here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError

TABLE = Path(__file__).with_name("bad_input.txt")
JOB = "job: {command: x, environment: 'azureml:e:1'}\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    files: dict[str, str]
    complaints: str


def read_cases() -> list[Case]:
    cases = []
    for section in re.split(r"(?m)^=== ", TABLE.read_text(encoding="utf-8"))[1:]:
        head, _, complaints = section.partition("\n>>>\n")
        name, _, text = head.partition("\n")
        parts = re.split(r"(?m)^@@@ (.+)\n", f"{text}\n")
        files = dict(zip(parts[1::2], parts[2::2], strict=True))
        if parts[0].strip():
            files["aml-train.yml"] = parts[0]
        cases.append(Case(name=name, files=files, complaints=complaints.strip()))
    return cases


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "data.csv").write_text("1,2\n")
    (tmp_path / "out.txt").write_text("")
    (folder / "link.txt").symlink_to(tmp_path / "out.txt")
    (folder / "dangling.yml").symlink_to("gone.yml")
    (folder / "loop.yml").symlink_to("loop.yml")
    os.mkfifo(folder / "pipe")
    return folder


def complaints(folder: Path) -> str:
    with pytest.raises(InvalidError) as caught:
        load_config(None, directory=folder)
    assert len(caught.value.faults) == str(caught.value).count("\n") + 1
    return str(caught.value).replace(str(folder.parent), "")


def meaning(complaint: str) -> str:
    """Return the place of a complaint, and what it names; its words may change."""
    place, text = re.fullmatch(r"([^:]+(?::\d+)?): (.*)", complaint).groups()  # type: ignore[union-attr]
    return " ".join([f"{place}:", *re.findall(r"`[^`]+`", text)])


CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_bad_input(case: Case, project: Path) -> None:
    for name, text in case.files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    assert [meaning(line) for line in complaints(project).splitlines()] == case.complaints.splitlines()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
NOT_PLAIN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ":1: the file is empty"),
    "nul": (b"job: a\0b\n", ":1: the file holds the control character U+0000: "),
    "utf-16": ("job: a\n".encode("utf-16"), ":1: the file is encoded as UTF-16: save it as UTF-8"),
    "latin-1": (b"job: x\r\n# caf\xe9\r\n", ":2: the byte 0xe9 is not UTF-8: save the file as UTF-8"),
    "line separator": ("job: a\n\n# \u2028\n".encode(), ":3: the file holds the control character U+2028: "),
    "too large": (b"# " + b"x" * 1024 * 1024, ": the file is larger than 1 MiB: name a YAML file, not data"),
    "deep list": (b"job: " + b"[" * 100_000, ":1: the values are nested deeper than 50 levels"),
    "deep block": (
        b"".join(b" " * depth + b"a:\n" for depth in range(1000)),
        ":51: the values are nested deeper than 50 levels",
    ),
    "alias bomb": (BOMB.encode(), ":1: the file holds more than 20,000 values: each use of an alias counts"),
    "aliases nest": (
        b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (i, i, i - 1) for i in range(1, 60)),
        ":1: the values are nested deeper than 50 levels",
    ),
    "many values": (b"job: [" + b"1," * 30_000 + b"]", ":1: the file holds more than 20,000 values: "),
    "long number": (
        JOB.encode() + b"watch: {timeout: " + b"9" * 5000 + b"}\n",
        f":2: `{'9' * 59}…` is a number too long to be one: write it in quotes if it is text",
    ),
    "long name": (b"job: " + b"x" * 300, f":1: cannot read `{'x' * 119}…`: file name too long; name a readable"),
    "device": (b"job: /dev/zero\n", ":1: cannot read `/dev/zero`: it is a device, a pipe or a socket; name a"),
    "byte order mark": (
        b"\xef\xbb\xbf" + JOB.encode() + b"watch: 5\n",
        ":2: `watch` must be a mapping: it is `5`; write it as indented `key: value` lines",
    ),
}


@pytest.mark.parametrize(("data", "expected"), NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_bad_bytes(data: bytes, expected: str, project: Path) -> None:
    (project / "aml-train.yml").write_bytes(data)
    assert complaints(project).startswith(f"aml-train.yml{expected}")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("src", "it is a folder"),
        ("pipe", "it is a device, a pipe or a socket"),
        ("dangling.yml", "it does not exist"),
        ("data.csv/x.yml", "not a directory"),
        ("a\0b", "its path holds a NUL character"),
    ],
)
def test_a_path_that_is_no_file(name: str, why: str, project: Path) -> None:
    with pytest.raises(InvalidError, match=f"cannot read `.*`: {why}; name a readable YAML file$"):
        load_config(Path(name), directory=project)


def test_nothing_there(project: Path) -> None:
    assert complaints(project) == (
        "aml-train.yml: neither it nor a job.yml is in `/project`: write one with `aml-train init`, or name the file"
    )


def test_secrets_are_never_repeated(project: Path) -> None:
    (project / "aml-train.yml").write_text(
        JOB + "image: {base: x, env: {A: 0123456, B: 2020-01-01, C: [hunter2]}, pip: ['x @ https://u:hunter2@h y']}\n"
    )
    text = complaints(project)
    assert text.count("\n") == 3
    assert not re.search("0123456|hunter2|2020-01", text)


HUGE = {
    "unknown keys": "\n".join(f"key{number}: x" for number in range(19_000)),
    "unclosed references": JOB.replace("command: x", "command: '" + "${{ " * 200_000 + "'"),
    "undeclared references": JOB.replace("command: x", "command: '" + "${{inputs.x}}" * 70_000 + "'"),
    "undeclared among many": "job:\n  environment: azureml:e:1\n  command: '"
    + "".join(f"${{{{inputs.x{number}}}}}" for number in range(10_000))
    + "'\n  inputs:\n"
    + "".join(f"    y{number}: 1\n" for number in range(10_000)),
    "alias of a long text": "job: &a '" + "x y" * 100_000 + "'\nimage: {base: x, apt: [" + "*a," * 19_000 + "]}",
    "rules": JOB + "gate:\n" + "".join(f"  m{number}: x\n" for number in range(9_000)),
    "one long repository": JOB + "image: {base: " + "a-" * 400_000 + "}",
    "one long key": JOB + "? " + "a." * 400_000 + "\n: x\n",
    "spaces": JOB + "target: '" + " " * 900_000 + "x'",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_large_input_takes_bounded_time_and_says_bounded_much(text: str, project: Path) -> None:
    (project / "aml-train.yml").write_text(text)
    said = complaints(project)
    assert said.count("\n") <= 200
    assert len(said) < 200_000


def test_more_faults_than_are_worth_printing(project: Path) -> None:
    (project / "aml-train.yml").write_text("\n".join(f"key{number}: x" for number in range(300)))
    lines = complaints(project).splitlines()
    assert len(lines) == 201
    assert lines[-1] == "aml-train.yml: there are more than 200 faults: correct these first"
