from __future__ import annotations

import pytest

from aml_train.image.testing.junit import Places, parse_junit

FILES = {"tests/test_a.py", "sub/tests/test_b.py", "sub/src/code.py", "one/same.py", "two/same.py"}


@pytest.mark.parametrize(
    ("name", "workdir", "found"),
    [
        ("tests/test_a.py", "", "tests/test_a.py"),
        ("./tests/test_a.py", "", "tests/test_a.py"),
        ("/workspace/tests/test_a.py", "", "tests/test_a.py"),
        ("/workspace/sub/../tests/test_a.py", "", "tests/test_a.py"),
        ("tests/test_b.py", "sub", "sub/tests/test_b.py"),
        ("../tests/test_a.py", "sub", "tests/test_a.py"),
        ("tests/test_a.py", "sub", "tests/test_a.py"),
        ("test_b.py", "", "sub/tests/test_b.py"),
        ("same.py", "", None),
        ("same.py", "two", "two/same.py"),
        ("/usr/lib/python3/x.py", "", None),
        ("est_a.py", "", None),
    ],
)
def test_names_of_files(name: str, workdir: str, found: str | None) -> None:
    assert Places(files=FILES, workdir=workdir).find(name) == found


@pytest.mark.parametrize(
    ("file", "start", "classname", "traceback", "expected"),
    [
        # pytest: the last entry of the traceback in the test's own file; its line attribute counts from zero.
        ("tests/test_a.py", "3", "", "tests/test_a.py:5: in f\nsub/src/code.py:9: E\n", ("tests/test_a.py", 5)),
        ("tests/test_a.py", "3", "", "", ("tests/test_a.py", 4)),
        ("tests/test_a.py", "\u00b2", "", "", ("tests/test_a.py", None)),
        ("tests/test_a.py", "9" * 5000, "", "", ("tests/test_a.py", None)),
        # Told relative to another root, as by `cd sub && pytest`.
        ("tests/test_b.py", None, "", "tests/test_b.py:7: AssertionError", ("sub/tests/test_b.py", 7)),
        # unittest's reports tell no file; Python's own traceback does.
        (None, None, "tests.test_a.TestA", 'Traceback:\n  File "/workspace/tests/test_a.py", line 8, in x\n', ("tests/test_a.py", 8)),
        (None, None, "nowhere", '  File "/usr/lib/x.py", line 1, in a\n', (None, None)),
        (None, None, "nowhere", '  File "/workspace/sub/src/code.py", line 2, in a\n', ("sub/src/code.py", 2)),
        # A file that is not the project's stays as it is told.
        ("generated.py", "1", "", "generated.py:3: E", ("generated.py", 3)),
        (None, None, "", "", (None, None)),
    ],
)  # fmt: skip
def test_places_of_failures(
    file: str | None, start: str | None, classname: str, traceback: str, expected: tuple[str | None, int | None]
) -> None:
    assert Places(files=FILES).locate(file, start, classname, traceback) == expected


def test_a_failures_output_is_kept_its_end_first() -> None:
    report = parse_junit(
        b'<testsuite><testcase classname="tests.test_a" name="t"><failure message="m">trace'
        + b"x" * 7000
        + b"END</failure>"
        b"<system-out>printed</system-out><system-err>told</system-err></testcase></testsuite>",
        Places(files=FILES),
    )
    (failure,) = report.failures
    assert failure.file == "tests/test_a.py"
    trace, printed, told = failure.output.split("\n")
    assert (len(trace), trace[-4:], printed, told) == (6000, "xEND", "printed", "told")
