"""Drive the properties by coverage, under atheris: ``python -m tests.unit.properties.night MINUTES``.

Each property of this folder that hypothesis alone gives its arguments gets an equal share, in a process of its own. What fails is
printed with its traceback and its example, which goes to ``examples/PROPERTY``.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def properties() -> Iterator[str]:
    """Yield the properties: MODULE.TEST."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for name, value in vars(importlib.import_module(f"{__package__}.{path.stem}")).items():
            if name.startswith("test_") and hasattr(value, "hypothesis"):
                yield f"{path.stem}.{name}"


def drive(name: str, seconds: float) -> None:
    """Give one property bytes that reach new code, until it fails or the time is over."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    module, _, test = name.partition(".")
    with atheris.instrument_imports(include=["aml_train", "aml_emulator", "aml_train_action"]):
        found: Any = getattr(importlib.import_module(f"{__package__}.{module}"), test)
    atheris.Setup(
        ["night", f"-max_total_time={seconds:.0f}", "-timeout=60", "-max_len=4096", "-len_control=0"],
        found.hypothesis.fuzz_one_input,
    )
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """Drive all properties, or one: MINUTES, or NAME SECONDS."""
    if len(arguments) == 2:
        drive(arguments[0], float(arguments[1]))
        return 0
    names = list(properties())
    seconds = float(arguments[0]) * 60 / len(names)
    failed = []
    for name in names:
        print(f"{name}: {seconds:.0f} s", flush=True)
        command = [sys.executable, "-m", f"{__package__}.night", name, f"{seconds:.0f}"]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print("failed:", ", ".join(failed) or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
