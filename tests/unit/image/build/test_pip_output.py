"""What users see of pip: lines as pip 23 and 25 print them in BuildKit's plain log."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.core.events import LogLine, Progress
from aml_train.image.build.pip_output import fault_of
from aml_train.image.build.progress import PlainProgress
from aml_train.image.project_files import requirement_files

STEP = (
    "#7 [stage-0 2/3] RUN --mount=type=cache,target=/root/.cache/pip,sharing=locked     --mount=type=bind,"
    "source=requirements-large.txt,target=/tmp/aml-train/requirements-large.txt     PIP_BREAK_SYSTEM_PACKAGES=1 "
    'PIP_ROOT_USER_ACTION=ignore     "$(command -v python || command -v python3)" -m pip install --no-warn-script-location '
    "        --no-deps         --requirement=/tmp/aml-train/requirements-large.txt"
)
PLACES = {"": "aml-train.yml:4", "numpy": "requirements.txt:3", "six": "requirements.txt:1"}
CONFLICT = (
    "ERROR: Cannot install -r requirements.txt and six==1.4 because these package versions have conflicting dependencies.",
    "",
    "The conflict is caused by:",
    "    The user requested six==1.4",
    "    python-dateutil 2.9.0 depends on six>=1.5",
    "",
    "To fix this you could try to:",
)


def fed(*lines: str) -> tuple[PlainProgress, list[Progress], list[str]]:
    progress = PlainProgress(PLACES)
    events = [event for line in (STEP, *(f"#7 0.5 {line}" for line in lines)) for event in progress.feed(line)]
    said = [event.text for event in events if isinstance(event, LogLine)]
    return progress, [event for event in events if isinstance(event, Progress)], said


def test_a_build_moves_with_the_packages_that_pip_fetches() -> None:
    _, events, said = fed(
        "Collecting torch==2.9.0 (from -r /tmp/aml-train/requirements-large.txt (line 2))",
        "  Downloading torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (30 kB)",
        "Collecting six",
        "Downloading torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl (812.1 MB)",
        "   ━━━━━━━━ 812.1/812.1 MB 31.0 MB/s eta 0:00:00",
        "Using cached https://files.example/a/six-1.16.0.tar.gz (11 kB)",
        "Processing /opt/wheels/scikit_learn-1.5.0-cp311-cp311-linux_x86_64.whl (from x->-r y (line 1))",
        "Installing collected packages: six, torch",
    )
    assert [(event.label, event.amount) for event in events] == [
        ("packages of the requirements", "1 of 3 steps"),
        ("packages: torch 2.9.0 (812.1 MB)", "1 of 2"),
        ("packages: six 1.16.0 (11 kB)", "2 of 2"),
        ("packages: scikit_learn 1.5.0", "3 of 3"),
        ("packages: installing them", "3 of 3"),
    ]
    assert said[:2] == ["[2/3] packages of the requirements", "Collecting torch==2.9.0 (from -r requirements.txt)"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["ERROR: Could not find a version that satisfies the requirement numpy==99 (from versions: 1.3.0, 2.3.5, 2.4.0rc1, 100.0)"],
            "requirements.txt:3: numpy==99: no such version for the image's Python; nearest 2.3.5",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement numpy==1.0 (from versions: 1.26.4, 1.3.0)"],
            "requirements.txt:3: numpy==1.0: no such version for the image's Python; nearest 1.3.0",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement pandas>=9 (from six) (from versions: 2.0, 2.1)"],
            "requirements.txt:1: six needs pandas>=9: no such version for the image's Python; nearest 2.1",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement nupmy (from versions: none)"],
            "aml-train.yml:4: nupmy: no such package, or none for the image's Python and platform",
        ),
        (
            CONFLICT,
            ("requirements.txt:1: the requirements exclude each other:\n  The user requested six==1.4\n"
            "  python-dateutil 2.9.0 depends on six>=1.5"),
        ),
        (
            ["  ERROR: Failed building wheel for six"],
            "requirements.txt:1: six has no wheel for the image's Python and platform, and cannot be built in it",
        ),
        (["error: Failed to build 'six' when getting requirements"], "requirements.txt:1: six has no wheel for the image's Python and platform, and cannot be built in it"),
        (["ERROR: Could not open requirements file"], ""),
    ],
)  # fmt: skip
def test_a_requirement_that_pip_cannot_install_is_named_with_its_line(lines: list[str], expected: str) -> None:
    assert fault_of(lines, PLACES) == expected


def test_a_failed_step_of_ours_is_told_in_words_and_never_as_its_instruction() -> None:
    progress, _, _ = fed("ERROR: Could not install packages due to an OSError: HTTPSConnectionPool")
    shell = "/bin/sh -c " + "x" * 500
    ending = [
        f'#7 ERROR: process "{shell}" did not complete successfully: exit code: 1',
        f"executor failed running [{shell}]: exit code: 1",
        f" > {STEP[3:]}:",
    ]
    said = [event.text for line in ending for event in progress.feed(line) if isinstance(event, LogLine)]
    assert said == ["#7 ERROR: the step failed: exit code: 1", "the step failed: exit code: 1"]
    assert progress.error(1).message == (
        "the image's step 'packages of the requirements' failed:\n  ERROR: Could not install packages due to an OSError: HTTPSConnectionPool"
    )


def test_words_of_pip_in_a_step_that_installs_nothing_are_not_taken_for_its_own() -> None:
    progress = PlainProgress(PLACES)
    for line in ("#7 [2/2] RUN make", "#7 0.1 Failed to build six", "#7 ERROR: x"):
        list(progress.feed(line))
    assert progress.error(1).message == "the image's step 'RUN make' failed:\n  Failed to build six"


def test_a_full_disk_is_no_fault_of_a_requirement() -> None:
    progress, _, _ = fed("ERROR: Failed building wheel for six", "OSError: [Errno 28] No space left on device")
    list(progress.feed("#7 ERROR: x"))
    assert "disk is full" in (progress.error(1).hint or "")


def test_each_package_is_found_in_the_file_and_line_that_require_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "# of the model\n-r more/base.txt\n\nScikit_Learn ==1.5 ; python_version > '3'\n"
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more/base.txt").write_text("-c limits.txt\nnumpy==99\n")
    (tmp_path / "more/limits.txt").write_text("pandas<3\nnumpy<100\n")
    assert requirement_files(tmp_path / "requirements.txt", tmp_path)[2] == {
        "scikit-learn": "requirements.txt:4",
        "numpy": "more/base.txt:2",
        "pandas": "more/limits.txt:1",
    }
