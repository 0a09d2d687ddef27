"""Names, rules, patterns and other short texts of users: a value that means the same if it is written again, or a refusal that says why."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence

from aml_train.azure.blob.address import Asset, DatastorePath, JobOutput, LocalPath, parse_address
from aml_train.azure.blob.globs import safe_relative, select
from aml_train.azure.credentials import claims_of
from aml_train.azure.sign_in import reason
from aml_train.config.job.command_line import quoted
from aml_train.core.answers import clean, is_within, split
from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.file_selection import SECRETS
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef, is_digest
from aml_train.core.release_tags import release_tags, template_fault
from aml_train.core.text import LineBlocks, harmless, iso_seconds, lines_of, states
from aml_train.gate.baseline import ValuesBaseline
from aml_train.gate.decide import Evidence, decide_rule
from aml_train.gate.history import MetricPoint
from aml_train.gate.rules import AGGREGATES, OPERATORS, SHAPES, Rule, parse_rule
from aml_train.image.registry.auth import is_loopback, parse_challenge
from aml_train.image.requirements_file import (
    ignore_patterns,
    large_pins,
    logical_lines,
    normalised_ignore_file,
    normalised_requirements,
)
from aml_train.models.lineage import asset_of
from aml_train.pipeline.project_name import repository_of
from aml_train_action.github.commands import escape_data, escape_property
from tests.unit.properties.foreign import as_bytes, files, foreign, refused, scratch

DIGEST = "sha256:" + "0a" * 32
ARM = "https://management.azure.com"
ORDER = {"skipped": 0, "missed": 1, "warned": 1, "met": 2}


@foreign(
    [
        *(
            "python",
            "python:3.11",
            "docker.io/library/python:3.11-slim",
            f"python@{DIGEST}",
            f"ghcr.io/org/a/b-c__d:v1@{DIGEST}",
        ),
        *(
            "localhost:5000/x:y",
            "[::1]:5000/a",
            "10.0.0.1/a.b",
            "amllocal.azurecr.io/aml-train/digits:1",
            "index.docker.io/a/b",
        ),
    ],
    f"docker.io/ library/ localhost :5000 :latest @{DIGEST} __ [::1]",
)
def test_references(text: str) -> None:
    reference = refused(lambda: ImageRef.parse(text), ValueError)
    if reference is not None:
        assert ImageRef.parse(str(reference)) == ImageRef.parse(reference.familiar) == reference
        assert str(reference).isascii()
        assert " " not in str(reference)
        assert reference.digest is None or is_digest(reference.digest)
        pinned = reference.with_digest(DIGEST)
        assert ImageRef.parse(str(pinned)) == pinned


def decided(rule: Rule, values: Sequence[float], baseline: float) -> int:
    points = [MetricPoint(step=number, value=value, timestamp=number) for number, value in enumerate(values)]
    others = {name: [MetricPoint(step=0, value=0.25, timestamp=0)] for name in rule.metrics if name != "m"}
    known = ValuesBaseline(title="b", values={"m": baseline}, stands_for_all=True)
    decision = decide_rule("m", rule, "f.yml:1", Evidence(histories={"m": points, **others}, baseline=known))
    assert decision.reason
    return ORDER[decision.verdict]


@foreign(
    [
        *(f"{how} {operator} 0.5" for how in AGGREGATES for operator in OPERATORS if how != "p"),
        *(
            "p(95) <= 0.5",
            "mean(5) < 1e-3",
            ">= baseline - 1%",
            "max >= last baseline + 0.01",
            "< metric(val/a b) * 2",
        ),
        *("< metric('x') + 2%", ">= p(50) metric(loss) - .5", "== 1_000", ">0", *SHAPES),
    ],
    [*AGGREGATES, *OPERATORS, *SHAPES, "baseline", "metric(", " - ", "0.5", "p(95)"],
)
def test_rules(text: str) -> None:
    """A better value never does worse, and NaN meets no rule."""
    rule = refused(lambda: parse_rule(text), ValueError)
    if rule is None:
        return
    assert parse_rule(rule.text) == parse_rule(f"  {text}\t") == rule
    if rule.shape is not None or rule.aggregate.name in ("count", "steps") or "m" in rule.metrics:
        decided(rule, [1.0, 2.0], 1.0)
        return
    times = int(min(rule.aggregate.argument or 2, 50))
    verdicts = [decided(rule, [value] * times, 0.5) for value in (-1e300, -3.0, -0.5, 0.0, 0.1, 0.5, 2.0, 5.0, 1e300)]
    if rule.operator != "==":
        assert verdicts == (sorted(verdicts) if rule.greater else sorted(verdicts, reverse=True))
    assert decided(rule, [float("nan")] * 3, 0.5) < ORDER["met"]
    decided(rule, [0.5], float("inf"))


@foreign(
    [
        *(
            "azureml:data:1",
            "azureml:data@latest",
            "azureml://datastores/w/paths/a/b*",
            "azureml://jobs/j/outputs/default/paths/m",
        ),
        "azureml://subscriptions/s/resourcegroups/g/workspaces/w/data/d/versions/2",
        "https://acc.blob.core.windows.net/c/a%20b?sv=1&sig=abc%2F%3D&se=2026",
        *(
            "abfss://c@a.dfs.core.windows.net/p",
            "git@github.com:octo/digits.git",
            "https://u:p@dev.azure.com/o/p/_git/r",
        ),
        *(
            "ssh://git@ssh.dev.azure.com/v3/o/p/r",
            'Bearer realm="https://auth.io/token",service="s"',
            "[::1]",
            "./x",
            "PT2H30M",
        ),
    ],
    'azureml: datastores/ /paths/ /versions/ @latest https:// ssh:// ?sig= %2F management.azure.com realm=" PT P1D',
)
def test_addresses(text: str) -> None:
    """No token goes to a host that is not Azure's, and no credentials into names."""
    match refused(lambda: parse_address(text), AmlTrainError):
        case DatastorePath() | JobOutput() as found:
            assert not found.path.startswith("/")
        case Asset() as found:
            assert found.name
        case LocalPath() as found:
            assert found.path == text
    parts = split(text)
    assert parts is None or (parts.scheme in ("http", "https") and parts.hostname)
    if is_within(text, ARM):
        assert parts is not None
        assert f".{parts.hostname}".endswith(".management.azure.com")
    parse_challenge(text)
    is_loopback(text)
    assert "@" not in repository_of(text).partition("/")[0]
    asset_of(text)
    claims_of(text)
    reason(clean(text))
    seconds = iso_seconds(text)
    assert seconds is None or 0 <= seconds < 1e20


@foreign(
    [
        "data/*.csv",
        "data/**/part-?.parquet",
        "**",
        "x/[ab][!c]/",
        "[[]x]*",
        "folder/",
        "a/b.txt",
        "data/[z-a]",
        "[a--&&||]*",
    ],
    "* ** ? [ ] [! [^ [a-z] [[] **/ && a/",
)
def test_globs(text: str) -> None:
    for name in ("data/a.csv", "a/b", "[x]y", "-", text[:200]):
        inner = select(text[:200]).relative(name)
        assert inner is None or name.endswith(inner)
    plain = select(text, literal=True)
    assert plain.parts == ()
    assert plain.relative(plain.folder + "x") == "x"
    refused(lambda: safe_relative(text), InvalidError)


NAMES = ("a.py", "data/big.csv", "data/keep/x.csv", "src/train.py", ".env", "id_rsa", "logs/a.log", "b c.txt")


@foreign(
    [
        *files("examples/**/.gitignore", ".gitignore"),
        "data/\n!data/keep/\n*.log\n# c\n\\#x\n",
        "/src/**/*.py\nb\\ c.txt\n!.env\n*\n",
    ],
    "! # \\# **/ /** [a-z] [z-a] data/ .env id_rsa",
)
def test_ignore_files(text: str) -> None:
    """No ignore file takes a secret back, and Docker's reads as Azure's does."""
    folder = scratch("ignore")
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    for place in (".amlignore", "data/.amlignore"):
        (folder / place).write_bytes(as_bytes(text))
    for nested in (True, False):
        found = refused(lambda nested=nested: FileSet.collect(folder, nested=nested), InvalidError)
        if found is not None:
            paths = {entry.path for entry in found.entries}
            assert not paths & {".env", "id_rsa"}, SECRETS[0]
            assert paths <= {*NAMES, ".amlignore", "data/.amlignore"}
    normal = normalised_ignore_file(as_bytes(text))
    assert normalised_ignore_file(normal) == normal
    assert list(ignore_patterns(as_bytes(text)).values()) == list(
        ignore_patterns(normal).values()
    ) or normal == as_bytes(text)


@foreign(
    [
        *files("examples/**/requirements.txt", "tests/projects/**/requirements*.txt"),
        (
            "--index-url https://example.org/simple\n-r other.txt\ntorch==2.5.1+cu121 ; python_version < '3.13'\nnumpy>=1.26,<3 \\\n    --hash=sha256:0\n"
            "scikit_learn[extra]~=1.5  # comment\n./local\n-e .\nx @ https://example.org/x.whl\n"
        ),
    ],
    "torch == >= ~= === ; [extra] @ --hash=sha256: -r -e 2.5.1+cu121 1!2.0 .* rc1 ${TOKEN}",
)
def test_requirements(text: str) -> None:
    normal = normalised_requirements(as_bytes(text))
    assert normalised_requirements(normal) == normal
    pins = large_pins([as_bytes(text)])
    assert pins is None or large_pins([pins]) is not None
    list(logical_lines(text))


@foreign(
    [
        "python train.py --rate 0.5",
        "cd src && export PYTHONPATH=.:lib && python -m digits.train",
        "pytest -q tests; echo $?",
        'bash -c "pytest -x && true"',
    ],
    "&& || ; | \\ $( ) <<EOF pytest python -m -c",
)
def test_commands(text: str) -> None:
    words = text.split(" ")
    if "\0" not in text:
        assert shlex.split(quoted(words)) == words


@foreign(
    [
        "plain",
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b1m",
        "::error file=a,line=1::x\r\n::stop-commands::y",
        "10%\r20%\rdone",
        "v1-{short-commit}-{branch}",
    ],
    ["\x1b[", "\x1b]", "\x07", "\x9b", "::", "%0A", "{commit}", "{branch}", "{{", "{short-commit!r}", "{address:9}"],
)
def test_printed_texts(text: str) -> None:
    """No text acts on a terminal or on GitHub's runner."""
    for line in lines_of(text):
        assert not [sign for sign in line if unicodedata.category(sign) == "Cc" and sign != "\t"]
        assert harmless(line) == line
    assert len("".join(states(text))) <= len(text)
    clean(text).encode()
    assert not set("\r\n") & {*escape_data(text), *escape_property(text)}
    assert not set(",:") & set(escape_property(text))
    if template_fault(text) is None:
        for tag in release_tags([text], commit="0" * 40, branch="a/\u00e4", address="1" * 64):
            assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", tag)


@foreign(["10%\r20%\r30%\nabc\r\n\x1b[31mred\x1b[0m\n", "a\nb"], ["\n", "\u20ac"])
def test_lines_of_a_stream(text: str) -> None:
    """Lines do not depend on how bytes arrive."""
    data = as_bytes(text.replace("\r", ""))

    def read(size: int) -> str:
        blocks = LineBlocks()
        pieces = [piece for start in range(0, len(data), size) for piece in blocks.feed(data[start : start + size])]
        return "".join(one.text if one.more else f"{one.text}\n" for one in [*pieces, *blocks.feed(b"", final=True)])

    assert read(7) == read(len(data) or 1)
