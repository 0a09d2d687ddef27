"""Logs of jobs and builds: tracebacks, NCCL, addresses, names, reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aml_train.azure.environment_log import ClassicLog
from aml_train.core.text import LineBlocks, LinePieces, Piece
from aml_train.image.build.progress import PlainProgress
from aml_train.jobs.logs.names import chosen, log_name
from aml_train.jobs.logs.nccl import NcclWatch, has_infiniband
from aml_train.jobs.logs.pages import JobPages
from aml_train.jobs.logs.report import best, failed_rank
from aml_train.jobs.logs.tracebacks import TracebackFinder, innermost
from aml_train.jobs.states import JobStatus, ending_of, exit_code_of, headline
from fuzz.target import Target, as_bytes, require

_MOST = 60_000
"""Characters of a traceback's text, whatever the log has."""


def seeds() -> Sequence[str]:
    """Return logs as Python, its launchers, NCCL, MLflow and builders write them."""
    plain = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n  File "/a/src/m.py", line 9, in main\nValueError: x\n'
    group = (
        '  + Exception Group Traceback (most recent call last):\n  |   File "t.py", line 1, in <module>\n  | ExceptionGroup: g (1 sub-exception)\n'
        "  +-+---------------- 1 ----------------\n    | ValueError: 1\n    +------------------------------------\n"
    )
    return [
        f"epoch 1\n{plain}done\n",
        f"{plain}\nDuring handling of the above exception, another exception occurred:\n\n{plain}",
        "".join(f"[rank{number}]: {line}\n" for number in (0, 1) for line in plain.splitlines()),
        group,
        (
            "node-0:12:34 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>\nnode-0 NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
            "NCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB\n"
        ),
        "View run x at: https://a.b/#/experiments/1/runs/2\nView experiment at: https://a.b/#/experiments/1\n",
        "AzureMLCompute job failed.\nExecutionFailed: [REDACTED]\n\texit_codes: 1\n[rank 3] Error: exited with code 137\n",
        "user_logs/std_log_process_01.txt\nlogs/azureml/dataprep/x.log\nazureml-logs/70_driver_log_worker_1.txt\n20_image_build_log.txt\n",
        '#5 [2/4] RUN pip install x\n#5 1.234 Collecting x\n#5 DONE 3.0s\n#6 ERROR: process "/bin/sh" did not complete: exit code: 1\nStep 1/3 : FROM x\n',
        "10%\r20%\r30%\nabc\r\n\x1b[31mred\x1b[0m\n",
    ]


def _found(text: str, *, whole: bool) -> list[str]:
    finder = TracebackFinder()
    for part in [text] if whole else text.split("\n"):
        finder.feed("user_logs/std_log.txt", part, rank="0")
    finder.finish("user_logs/std_log.txt")
    found = finder.found()
    for one in found:
        require(len(one.text) <= _MOST, f"a traceback of {len(one.text)} characters")
        innermost(one, Path("/code"), is_file=lambda path: path.name == "m.py")
    best(found, failed=failed_rank(text))
    return [one.text for one in found]


def _pieces(data: bytes, size: int) -> str:
    reader, out = LineBlocks(), ""
    for start in range(0, len(data), size):
        out += _joined(reader.feed(data[start : start + size]))
    return out + _joined(reader.feed(b"", final=True))


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text if piece.more else f"{piece.text}\n" for piece in pieces)


def check(text: str) -> None:
    """Read a text as each kind of log."""
    require(_found(text, whole=True) == _found(text, whole=False), "tracebacks depend on how lines arrive")
    watch = NcclWatch()
    watch.feed(text)
    require(not watch.on_sockets or watch.warning("Standard_ND96asr_v4", 2), "no warning")
    pages = JobPages(job="job-1", url="https://h/runs/job-1?x", experiment_url=None)
    pages.link(text)
    data = as_bytes(text)
    if "\r" not in text:
        require(_pieces(data, 7) == _pieces(data, len(data) or 1), "lines depend on how bytes arrive")
    LinePieces().feed(data, final=True)
    has_infiniband(text)
    lines = text.split("\n")
    require(all(log_name(line).path == line for line in lines), "a log has another name")
    sorted(chosen(lines, every=True), key=lambda name: name.order)
    exit_code_of(text)
    headline(text)
    for line in lines[:5]:
        for status in (JobStatus.FAILED, JobStatus.CANCELED):
            ending_of(status, reason=text, codes=(line,))
    progress, classic = PlainProgress(), ClassicLog()
    for line in lines:
        list(progress.feed(line))
        classic.translate(Piece(line))
    require(str(progress.error(1)), "an error without a message")


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.jobs.logs.tracebacks",
        "aml_train.jobs.logs.nccl",
        "aml_train.jobs.logs.pages",
        "aml_train.jobs.logs.names",
        "aml_train.jobs.logs.report",
        "aml_train.jobs.states",
        "aml_train.core.text",
        "aml_train.image.build.progress",
        "aml_train.azure.environment_log",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            "Traceback (most recent call last):",
            '  File "x.py", line 1, in f',
            "ValueError: x",
            "  + ",
            "  | ",
            "[rank0]: ",
            "[default0]:",
        ),
        *(
            "During handling of the above exception, another exception occurred:",
            "NCCL INFO ",
            "NET/Socket",
            "NET/IB",
            "#5 ",
            "#5 1.0 ",
        ),
        *(
            "#5 ERROR: ",
            "#5 DONE 1s",
            "exited with code ",
            "exit_codes: ",
            "std_log_process_",
            "azureml-logs/",
            "View run ",
            "\r",
            "\r\n",
        ),
    ),
)
