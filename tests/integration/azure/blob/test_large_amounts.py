"""10,000 small files and one of 2 GiB: up, listed, into a job, copied, down and removed; each of them killed in mid-way and run again."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.azure.blob.two_targets import TwoTargets
from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator

FILES: Final = 10_000
MEBIBYTES: Final = 2048
PATH: Final = "azureml://datastores/workspaceblobstore/paths/many"
MIDDLE: Final = "040/04000.bin"
"""Files come in the order of their names: when this one is there, 4,000 are."""

EARLY: Final = "002/00200.bin"
"""When this one is gone, more than 200 are."""
TRIES: Final = 5

pytestmark = [pytest.mark.full, pytest.mark.timeout(7200)]


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def checksums(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): checksum(path) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def many(two: TwoTargets) -> dict[str, str]:
    """The files, all different, and their checksums by name."""
    folder, source = two.folder / "many", random.Random(5)  # noqa: S311 - the same files each time
    for number in range(FILES):
        file = folder / f"{number // 100:03d}" / f"{number:05d}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(source.randbytes(500 + number % 2000))
    block = source.randbytes(1 << 20)
    with (folder / "large.bin").open("wb") as large:
        for number in range(MEBIBYTES):
            large.write(number.to_bytes(8, "big") + block[8:])
    return checksums(folder)


def kill_when(two: TwoTargets, ready: Callable[[], bool], *arguments: str) -> None:
    """Start the command, and end it by SIGKILL as soon as *ready*."""
    process = two.start(*arguments)
    while not ready():
        assert process.poll() is None, f"it ended before it was killed: {process.communicate()}"
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -9
    process.communicate()


def kill_in_large(two: TwoTargets, container: Any, *arguments: str) -> None:
    """Kill the command while it sends the large file, after all the others.

    Where it was through before anybody saw that it had begun, it does so anew.
    """
    for _ in range(TRIES):
        process = two.start(*arguments)
        while process.poll() is None and not (arriving(container) and small_ones(container) == FILES):
            time.sleep(0.05)
        process.kill()
        _, complaint = process.communicate()
        assert process.returncode in (0, -9), complaint
        if not there(container, "large.bin"):
            assert process.returncode == -9
            return
        container.get_blob_client("many/large.bin").delete_blob()
    pytest.fail(f"{TRIES} times the large file was through before the command was killed")


def small_ones(container: Any) -> int:
    """Return how many of the small files are in the storage."""
    return sum(1 for name in container.list_blob_names(name_starts_with="many/") if not name.endswith("/large.bin"))


def stored(two: TwoTargets, at: str) -> dict[str, str]:
    lines = (json.loads(line) for line in two.run("ls", "-r", "--json", at).splitlines())
    return {line["name"]: line["md5"] for line in lines}


def hold(emulator: Emulator, which: str) -> None:
    """Have the storage answer requests of a kind ten minutes late, until the faults are removed."""
    emulator.admin("POST", f"faults?kind=delay&delay=600&host=*.blob.*&{which}").raise_for_status()


def there(container: Any, name: str) -> bool:
    found: bool = container.get_blob_client(f"many/{name}").exists()
    return found


def arriving(container: Any) -> bool:
    """Tell whether a part of the large file has arrived."""
    from azure.core.exceptions import ResourceNotFoundError

    try:
        _, pending = container.get_blob_client("many/large.bin").get_block_list("uncommitted")
    except ResourceNotFoundError:
        return False
    return len(pending) > 20


def test_up_and_listed(two: TwoTargets, many: dict[str, str]) -> None:
    container = two.container(two.local)
    command = ("upload", "many", PATH)
    kill_when(two, lambda: there(container, MIDDLE), *command)
    kill_in_large(two, container, *command)
    assert not there(container, "large.bin")
    done = two.run(*command)
    assert "sent 1 file (" in done
    assert f"{FILES:,} were there already" in done
    assert "had arrived earlier" in done
    assert stored(two, PATH) == many


def test_into_a_job(two: TwoTargets, many: dict[str, str]) -> None:
    lines = "".join(f"{name} {many[name]}\n" for name in sorted(many))
    seen = two.local.client("mounted", script="data_steps.py", seconds=1000, image=BASE, path=f"{PATH}/")
    assert seen["ended"] == "Completed"
    assert f"{FILES + 1} files {hashlib.sha256(lines.encode()).hexdigest()}" in seen["log"]
    artefacts = f"azureml://jobs/{seen['name']}/outputs/artifacts"
    assert "user_logs/std_log.txt" in two.run("ls", "-r", artefacts)
    two.run("download", f"{artefacts}/paths/user_logs/std_log.txt", "many_log.txt")
    assert (two.folder / "many_log.txt").read_text() == seen["log"]


def test_to_another_target(two: TwoTargets, many: dict[str, str]) -> None:
    container = two.container(two.azure)
    command = ("cp", PATH, f"azure::{PATH}")
    kill_when(two, lambda: there(container, MIDDLE), *command)
    kill_in_large(two, container, *command)
    assert not there(container, "large.bin")
    done = two.run(*command)
    assert f"{FILES:,} were there already" in done
    assert "had arrived earlier" in done
    assert stored(two, f"azure::{PATH}") == many


def test_down_from_there(two: TwoTargets, many: dict[str, str]) -> None:
    down = two.folder / "many_down"
    command = ("download", f"azure::{PATH}", "many_down")

    def received() -> int:
        return max((part.stat().st_size for part in down.glob(".large.bin.*.part")), default=0)

    kill_when(two, lambda: (down / MIDDLE).exists(), *command)
    # What comes after some sixty blocks does not come: the file cannot be whole before the command is killed.
    hold(two.azure, "method=GET&path=*/many/large.bin&skip=60")
    kill_when(two, lambda: received() > 200_000_000 and len(list(down.glob("*/[0-9]*.bin"))) == FILES, *command)
    two.azure.admin("DELETE", "faults").raise_for_status()
    assert not (down / "large.bin").exists()
    assert received() > 200_000_000
    done = two.run(*command)
    assert "received 1 file (" in done
    assert f"{FILES:,} were there already" in done
    assert "had arrived earlier" in done
    assert checksums(down) == many
    # Kilobytes: less than half of the large file. Copies take most, for their blocks come in and go out at once.
    assert max(two.peaks) < 1_000_000, two.peaks


def test_removed(two: TwoTargets, many: dict[str, str]) -> None:
    container = two.container(two.local)
    command = ("rm", "-r", "--yes", PATH)
    # What comes after some thousand files is not removed: something is left when the command is killed.
    hold(two.local, "method=DELETE&path=*/many/*&skip=1000")
    kill_when(two, lambda: not there(container, EARLY), *command)
    two.local.admin("DELETE", "faults").raise_for_status()
    assert len(many) > len(stored(two, PATH)) > 0
    two.run(*command)
    assert "There is nothing at" in two.run("ls", PATH, code=8)
