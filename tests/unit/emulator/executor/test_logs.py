"""The pump of a job's log."""

from __future__ import annotations

import threading

import pytest

from aml_emulator.executor import logs
from aml_emulator.executor.logs import LogPump, cause_of


def test_what_is_stored_already_is_skipped_but_part_of_the_tail() -> None:
    stored: list[bytes] = []
    pump = LogPump(stored.append, skip=5)
    for chunk in (b"ab", b"cdefg", b"h"):
        pump.feed(chunk)
    pump.close()
    assert b"".join(stored) == b"fgh"
    assert pump.tail() == "abcdefgh"


WD = "/mnt/azureml/cr/j/run/exe/wd"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f'Traceback (most recent call last):\n  File "{WD}/train.py", line 3, in <module>\n    x["a"]\nKeyError: \'a\'\n', "KeyError: 'a' (train.py:3)"),
        (
            (f'Traceback (most recent call last):\n  File "{WD}/src/data.py", line 9, in load\n    json.loads(text)\n'
            '  File "/usr/local/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    raise error\n'
            '  File "<string>", line 1, in f\n  File "/opt/x/site-packages/a.py", line 2, in g\nValueError: bad\nbye\n'),
            "ValueError: bad (src/data.py:9)",
        ),
        ('[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 2, in f\n[rank1]: OSError: [Errno 28]\n', "OSError: [Errno 28] (t.py:2)"),
        (
            ('Traceback (most recent call last):\n  File "a.py", line 1, in f\nE: 1\n\nDuring handling of the above exception, '
            'another exception occurred:\n\nTraceback (most recent call last):\n  File "b.py", line 2, in f\nF\n'),
            "F (b.py:2)",
        ),
        ("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n", ""),
        ("epoch 1\nKilled\n", ""),
        ("[1,0]<stdout>: epoch 1\n[1,0]<stdout>: Killed\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_cause_is_the_last_exception_at_the_innermost_line_of_the_jobs_own_code(
    output: str, expected: str
) -> None:
    assert cause_of(output) == expected


def test_lines_of_mlflow_are_no_last_lines() -> None:
    pump = LogPump(lambda _: None)
    pump.feed("first\n🏃 View run job at: https://x\nlast\n🧪 View experiment at: https://x\n".encode())
    pump.close()
    assert pump.tail() == "first\nlast"


def test_memory_is_bounded_while_the_store_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BUFFER_BYTES", 100)
    go_on = threading.Event()
    sizes: list[int] = []

    def append(data: bytes) -> None:
        go_on.wait()
        sizes.append(len(data))

    pump = LogPump(append)
    feeder = threading.Thread(target=pump.feed, args=(b"x" * 1000,))
    feeder.start()
    feeder.join(0.05)
    assert feeder.is_alive()
    go_on.set()
    feeder.join()
    pump.close()
    assert sum(sizes) == 1000
    assert max(sizes) <= 100


def test_a_store_that_fails_blocks_nobody_and_is_told_at_the_end() -> None:
    def append(_: bytes) -> None:
        raise RuntimeError("the store is full")

    pump = LogPump(append)
    pump.feed(b"x" * (2 * logs.BUFFER_BYTES))
    pump.feed(b"last words")
    with pytest.raises(RuntimeError, match="the store is full"):
        pump.close()
    assert pump.tail().endswith("last words")
