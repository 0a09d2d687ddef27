"""Local images for curated environments: how they are written, and how they get to the local AzureML."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aml_train.config.load import load_config
from aml_train.core.errors import ServiceError
from aml_train.local import admin as emulator_admin
from aml_train.local.admin import register_environments


def test_the_first_of_the_file_counts_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text(
        "job: {command: 'true', environment: {image: 'x:1'}}\n"
        "targets: {local: {environments: {'acpt-*': 'one:1', '*': 'any:1'}}}\n"
    )
    images = load_config(None, directory=tmp_path).target.environments
    assert images == {"acpt-*": "one:1", "*": "any:1"}
    asked: list[dict[str, list[str]]] = []

    def answer(host: str, port: int, path: str, *, method: str) -> tuple[int, dict[str, Any]]:
        assert (host, port, method, urlsplit(path).path) == ("127.0.0.1", 7, "POST", "environments")
        asked.append(parse_qs(urlsplit(path).query))
        return 200, {}

    monkeypatch.setattr(emulator_admin, "_ask_at", answer)
    info: Any = SimpleNamespace(host="127.0.0.1", port=7)
    register_environments(info, images)
    # What is named last counts first.
    assert asked == [
        {"pattern": ["*"], "image": ["any:1"]},
        {"pattern": ["acpt-*"], "image": ["one:1"]},
    ]


@pytest.mark.parametrize(("answer", "why"), [(None, "it does not answer"), ((400, {"error": "no"}), "no")])
def test_a_refusal_is_told(answer: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator_admin, "_ask_at", lambda *_args, **_options: answer)
    info: Any = SimpleNamespace(host="127.0.0.1", port=7)
    with pytest.raises(ServiceError, match=f"does not take the image of A: {why}"):
        register_environments(info, {"A": "x:1"})
