"""The site's tree: where pages are, how links change."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs.site import expanded, stage


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {
        "docs/index.md": "# Home\n\n[a](a.md#x) [example](../examples/one) [file](../examples/one/compose.yaml)\n",
        "docs/a.md": "# A\n\n[folder](../examples/one/files) [out](https://example.org/x) `[code](../no.md)`\n",
        "docs/decisions/0001-x.md": "# 1. Use `x`\n\n```\n[fence](../../README.md)\n```\n[up](../a.md)\n",
        "docs/zensical.toml": "",
        "examples/one/README.md": "# One\n\n[more](more.md)\n",
        "examples/one/more.md": "# More\n",
        "examples/one/compose.yaml": "services: {}\n",
        "examples/one/files/data.csv": "1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_pages_and_the_files_that_they_link_to_are_staged(repository: Path) -> None:
    target = repository / "site"
    assert stage(repository, target) == [
        "a.md",
        "decisions/0001-x.md",
        "index.md",
        "repository/examples/one/README.md",
        "repository/examples/one/more.md",
    ]
    assert (target / "repository/examples/one/compose.yaml").read_text() == "services: {}\n"
    assert not (target / "zensical.toml").exists()
    home = (target / "index.md").read_text()
    assert "[a](a.md#x)" in home
    assert "[example](repository/examples/one/README.md)" in home
    assert "[file](repository/examples/one/compose.yaml)" in home


@pytest.mark.parametrize(
    ("pages", "shown"),
    [
        (["a.md", "b.md"], '{ "Some" = [{ "A" = "a.md" }, { "1. Use x" = "b.md" }] }, { "Home" = "index.md" }'),
        (["a.md"], '{ "Some" = "a.md" }, { "Home" = "index.md" }'),
        ([], '{ "Home" = "index.md" }'),
    ],
)
def test_a_pattern_of_the_menu_names_its_pages(repository: Path, pages: list[str], shown: str) -> None:
    (repository / "docs/b.md").write_text("# 1. Use `x`\n", encoding="utf-8")
    settings = 'nav = [{ "Some" = "[ab]*.md" }, { "Home" = "index.md" }]'
    assert expanded(settings, repository / "docs", pages).replace("[ ", "[") == f"nav = [{shown}]"
