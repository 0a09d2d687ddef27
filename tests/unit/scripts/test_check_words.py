"""The word check finds words and phrases in prose, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_words

WORDS = check_words.load_words()


def found(name: str, text: str) -> list[str]:
    return [f"{item.line}: {item.text}" for item in sorted(check_words.check_text(Path(name), text, WORDS))]


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("The engine is told.", 1, "told"),  # words: quoted
        ("A\n\nnetwork of\nits own.", 3, "of its own"),  # words: quoted
        ("It retries. What fails is shown.", 1, "What"),  # words: quoted
        ("- What fails is shown.\n- What fails is shown.", 1, "What"),
        ("| key | makes the machine ready |", 1, "makes the machine ready"),  # words: quoted
        ("It is tried Once\nmore.", 1, "Once more"),  # words: quoted
    ],
)
def test_words_and_phrases_in_markdown(text: str, line: int, word: str) -> None:
    assert found("page.md", text)[0].startswith(f"{line}: `{word}`: write ")


@pytest.mark.parametrize(
    "text",
    [
        "The option `--tell` exists.",
        "```sh\ntell me\n```\n\nText.",
        "See [the page](tell.md#once-more).",  # words: quoted
        "## What is checked\n\nWhat is checked? Words.",
        "A retold, tell-tale story.",
        "`go` on the path",
    ],
)
def test_code_links_headings_questions_and_compounds_are_no_findings(text: str) -> None:
    assert found("page.md", text) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""It tells."""',  # words: quoted
        "x = 1  # it tells",  # words: quoted
        'raise ValueError(f"{x} tells")',  # words: quoted
        'x = ("one go"\n     "es on")  # it\n# tells',  # words: quoted
    ],
)
def test_docstrings_comments_and_messages_are_prose(source: str) -> None:
    assert [text.split("`")[1] for text in found("module.py", source)] == ["tells"]


@pytest.mark.parametrize(
    "source",
    ["tell = told(beside)", 'f"{lies(1)} are text"', 'KEYS = ("beside", "tell")', 'x = "it lies"  # words: quoted'],
)
def test_code_keys_and_quoted_text_are_no_prose(source: str) -> None:
    assert found("module.py", source) == []


def test_a_long_line_of_docs_is_found_outside_tables_and_code() -> None:
    long = "word " * 21
    text = f"{long}\n| {long} |\n```\n{long}\n```\n[link](https://{'x' * 100})\n"
    assert found("page.md", text) == ["1: 105 characters: at most 100"]


def test_the_first_line_of_a_docstring_is_bounded() -> None:
    long = "x" * 81
    source = f'"""Module."""\n\n\ndef f():\n    """{long}."""\n\n\nclass C:\n    """Short.\n\n    {long}\n    """\n'
    assert found("module.py", source) == ["5: docstring's first line has 82 characters: at most 80"]
    assert found("tests/module.py", source) == []


def test_the_clean_list_names_files_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(check_words.ROOT)
    assert [path for path in check_words.clean_paths() if not path.exists()] == []


def test_findings_are_printed_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("It tells.\n", encoding="utf-8")  # words: quoted
    assert check_words.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/page.md:1: `tells`: write report, show; receive, is passed",
        "Words: 1 findings in 1 files.",
    ]


def test_an_unknown_path_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        check_words.main(["no/such/folder"])
    assert "no such file or folder: no/such/folder" in capsys.readouterr().err
