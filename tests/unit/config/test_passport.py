"""``passport:`` of the configuration: who signs, and no secret in a file that could be sent as code."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_passport
from aml_train.config.sections.passport import PassportConfig
from aml_train.core.errors import InvalidError


def load(folder: Path, section: str) -> PassportConfig:
    (folder / "aml-train.yml").write_text(f"job: job.yml\npassport: {section}\n")
    return load_passport(None, directory=folder)


def test_paths_are_relative_to_the_project(tmp_path: Path) -> None:
    made = load(tmp_path, "{key: keys/signing.pem, policy: policy.yml}")
    assert made.key_file == tmp_path / "keys/signing.pem"
    assert made.signs


def test_a_mounted_secret_keeps_its_name(tmp_path: Path) -> None:
    made = load(tmp_path, "{key: /run/secrets/signing}")
    assert made.key_file == Path("/run/secrets/signing")


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("{key: a.pem, key-env: KEY}", "exclude each other"),
        ("{keyless: true, key: a.pem}", "exclude each other"),
        ("{passphrase-env: WORD}", "`passphrase-env` is of a key"),
    ],
)
def test_faults(section: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=reason):
        load(tmp_path, section)
