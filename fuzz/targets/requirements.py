"""Requirements files: pip's lines, pins of large packages."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.cli.scaffold.image import newest_of
from aml_train.image.requirements_file import large_pins, logical_lines, normalised_requirements
from fuzz.seeds import files
from fuzz.storage import scratch
from fuzz.target import Target, as_bytes, require


def seeds() -> Sequence[str]:
    """Return requirements files."""
    locked = files("requirements/dev.txt")[0]
    return [
        *files("examples/**/requirements.txt", "tests/projects/**/requirements*.txt"),
        locked[:1500],
        "--index-url https://example.org/simple\n-r other.txt\n-c constraints.txt\ntorch==2.5.1+cu121 ; python_version < '3.13'\n"
        "numpy>=1.26,<3 \\\n    --hash=sha256:" + "0" * 64 + "\nscikit_learn[extra]~=1.5  # comment\n./local\n-e .\n"
        "x @ https://example.org/x.whl#sha256=0\n",
        ">=3.9,<3.13\n^3.10\n~3.11\n3.11.*\npytorch::torch=2.5\nscikit-learn>=1.2\n",
    ]


def check(text: str) -> None:
    """Read a requirements file, and each of its lines as other tools write them."""
    content = as_bytes(text)
    normal = normalised_requirements(content)
    require(normalised_requirements(normal) == normal, "normalising twice is not the same")
    pins = large_pins([content])
    if pins is not None:
        require(large_pins([pins]) is not None, "the pins of pins are none")
    file = scratch("requirements") / "requirements.txt"
    file.write_bytes(content)
    for line in list(logical_lines(text))[:30]:
        newest_of(line)


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.image.requirements_file",
        "aml_train.cli.scaffold.image",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "torch",
            "numpy",
            "==",
            ">=",
            "~=",
            "!=",
            "===",
            "^",
            ",",
            ";",
            "[extra]",
            " @ ",
            "--hash=sha256:",
            "\\\n",
            " #",
            "-r ",
            "-e ",
        ),
        *(
            "python_version < '3.9'",
            "--extra-index-url ",
            "2.5.1+cu121",
            "1!2.0",
            ".*",
            "rc1",
            "pytorch::",
            "=",
            "${TOKEN}",
        ),
    ),
)
