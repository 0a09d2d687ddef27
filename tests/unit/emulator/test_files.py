from __future__ import annotations

import stat
from pathlib import Path

from aml_emulator.reading import write_private


def test_a_private_file_replaces_one_that_others_could_read(tmp_path: Path) -> None:
    path = tmp_path / "identity.json"
    path.write_text("before")
    path.chmod(0o644)
    write_private(path, b"after")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"after", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["identity.json"]
