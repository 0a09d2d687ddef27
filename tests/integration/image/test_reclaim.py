"""The script that removes toolchains, on folders of the test's own."""

from __future__ import annotations

from pathlib import Path

from aml_train.image.reclaim import parse_removed, run_script


def test_the_script_removes_and_measures_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("usr/share/dotnet", "opt/ghc", "usr/share/kept"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr/share/dotnet/large").write_bytes(b"x" * 3_000_000)
    (tmp_path / "usr/share/swift").symlink_to(tmp_path / "usr/share/kept")
    output = run_script([], str(tmp_path), ("/usr/share/dotnet", "/opt/ghc", "/usr/share/swift", "/opt/missing"))
    found = parse_removed(output)
    assert [one.path for one in found] == ["/usr/share/dotnet", "/opt/ghc"]
    assert 2_900_000 < found[0].size < 3_200_000
    assert sorted(path.name for path in (tmp_path / "usr/share").iterdir()) == ["kept", "swift"]
    assert list((tmp_path / "opt").iterdir()) == []
