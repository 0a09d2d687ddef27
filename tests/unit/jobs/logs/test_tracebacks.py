from __future__ import annotations

import pytest

from aml_train.jobs.logs.tracebacks import TracebackFinder

ONE = """\
Traceback (most recent call last):
  File "/wd/train.py", line 12, in <module>
    main()
    ^^^^^^
  File "/wd/digits/data.py", line 7, in load
    np.load(x)
ValueError: no data: 100%"""
CHAIN = f"""\
{ONE}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/wd/train.py", line 14, in <module>
    tidy()
OSError: disk full"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/wd/train.py", line 3, in <module>
  |     raise ExceptionGroup("two", [ValueError(1), KeyError(2)])
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/wd/data.py", line 9, in load
    | ValueError: 1
    +---------------- 2 ----------------
    | KeyError: 2
    +------------------------------------"""


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "[1,0]<stderr>:", "[default3]:"])
@pytest.mark.parametrize("after", ["", "\nafter", "\n\n\nafter"])
def test_a_traceback_is_read_whole_behind_the_prefixes_of_launchers(prefix: str, after: str) -> None:
    finder = TracebackFinder()
    text = "before\n" + "".join(f"{prefix}{line}\n" for line in ONE.splitlines()) + after
    finder.feed("user_logs/std_log_process_1.txt", text, rank="1")
    (found,) = finder.found()
    assert found.message == "ValueError: no data: 100%"
    assert found.frames == (("/wd/train.py", 12), ("/wd/digits/data.py", 7))
    assert found.text == ONE
    assert (found.origin, found.rank) == ("user_logs/std_log_process_1.txt", "1")


def test_exceptions_that_led_to_one_another_are_one_traceback() -> None:
    finder = TracebackFinder()
    finder.feed("a", f"{CHAIN}\nafter")
    (found,) = finder.found()
    assert found.text == CHAIN
    assert found.message == "OSError: disk full"
    assert found.frames == (("/wd/train.py", 14),)


def test_an_exception_group_is_one_traceback() -> None:
    finder = TracebackFinder()
    finder.feed("a", f"{GROUP}\nafter")
    (found,) = finder.found()
    assert found.text == GROUP
    assert found.message == "ExceptionGroup: two (2 sub-exceptions)"


def test_ranks_do_not_mix_and_come_in_the_order_of_arrival() -> None:
    finder = TracebackFinder()
    lines = ["Traceback (most recent call last):", '  File "{0}.py", line 1, in x', "KeyError: '{0}'", "after"]
    for line in lines:
        for log in ("b", "a", "c"):
            finder.feed(log, line.format(log))
    assert [(one.origin, one.frames, one.message) for one in finder.found()] == [
        (log, ((f"{log}.py", 1),), f"KeyError: '{log}'") for log in ("b", "a", "c")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\nno frames",
        'Traceback (most recent call last):\n  File "a", line 1, in x',
        "",
    ],
)
def test_what_is_not_complete_is_none(text: str) -> None:
    finder = TracebackFinder()
    finder.feed("a", text)
    assert finder.found() == ()


def test_a_deep_recursion_is_cut_in_the_middle() -> None:
    frames = "".join(f'  File "a.py", line {number}, in f\n    f()\n' for number in range(100_000))
    finder = TracebackFinder()
    finder.feed("a", f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    (found,) = finder.found()
    lines = found.text.splitlines()
    assert lines[1] == '  File "a.py", line 0, in f'
    assert lines[-1] == "RecursionError: too deep"
    assert "… 199922 lines left out …" in lines
    assert len(found.frames) == 200


def test_memory_is_bounded_by_the_first_and_last_of_each_log() -> None:
    finder = TracebackFinder()
    for number in range(1000):
        for log in range(100):
            finder.feed(
                f"log {log}", f'Traceback (most recent call last):\n  File "a", line 1, in x\nE: {number}\nafter'
            )
    assert {one.message for one in finder.found()} == {"E: 0", "E: 999"}
    assert len(finder.found()) == 128
