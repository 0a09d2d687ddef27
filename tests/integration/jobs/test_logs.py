"""Logs of the emulator's jobs, which lie in real Blob storage and grow while they are followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aml_train.core.events import Event, LogLines, LogsEnded, Notice
from aml_train.core.masking import Masker
from tests.support.emulator_process import Emulator, executing_by
from tests.support.log_follower import Following, ranks
from tests.support.writing_emulator import filling

STD = "user_logs/std_log.txt"
RAISED = ("Traceback (most recent call last):", '  File "train.py", line 3, in f', "ValueError: bad label")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with executing_by("tests.support.writing_emulator", tmp_path_factory.mktemp("writing")) as service:
        yield service


@pytest.fixture
def following(emulator: Emulator) -> Following:
    return Following(emulator)


def test_each_byte_of_every_rank_is_downloaded_once_while_the_logs_grow(following: Following) -> None:
    logs = ranks(12)
    paths = ",".join(logs.values())
    going = f"say {logs['0']} half"
    script = (f"fill {paths} 300000 0 100", going, "await go", f"fill {paths} 300001 0 77")
    job = following.submit("bytes", *script)

    def go(event: Event) -> None:
        # The second half is written when the first one was heard.
        if isinstance(event, LogLines) and event.text.endswith("half"):
            following.tag(job, "go")

    assert following.watch(job, go) is None
    whole = b"".join((*filling(300_000, 100), *filling(300_001, 77))).decode()
    first = b"".join(filling(300_000, 100)).decode() + "half\n" + b"".join(filling(300_001, 77)).decode()
    heard = {rank: following.text(path) for rank, path in logs.items()}
    # A last line without an end is passed on with one.
    assert heard == {rank: (first if rank == "0" else whole).rstrip("\n") + "\n" for rank in logs}
    received = following.session.received
    assert received == {path.removeprefix("user_logs/"): 600_001 + 5 * (rank == "0") for rank, path in logs.items()}
    (ended,) = following.of(LogsEnded)
    assert [(tail.rank, tail.size) for tail in ended.tails] == [(rank, 600_001 + 5 * (rank == "0")) for rank in logs]


def test_after_a_connection_broke_off_reading_goes_on_where_it_stopped(following: Following) -> None:
    job = following.submit("broken", f"say {STD} begun", "await go", f"fill {STD} 2000000 0 50", f"say {STD} done")
    following.session.cut = 3

    def go(event: Event) -> None:
        if isinstance(event, LogLines) and event.text == "begun":
            following.tag(job, "go")

    assert following.watch(job, go) is None
    assert following.text() == "begun\n" + b"".join(filling(2_000_000, 50)).decode() + "done\n"
    assert following.session.received == {"std_log.txt": 2_000_011}
    assert following.session.cut == 0


@pytest.mark.parametrize("second", ["short", "a second attempt that writes more than the first one did"])
def test_a_log_that_begins_anew_is_shown_from_its_start(following: Following, second: str) -> None:
    script = (f"say {STD} first attempt", "await go", f"anew {STD}", f"say {STD} {second}", f"say {STD} end")
    job = following.submit(f"anew-{len(second)}", *script)

    def go(event: Event) -> None:
        if isinstance(event, LogLines) and event.text == "first attempt":
            following.tag(job, "go")

    assert following.watch(job, go) is None
    text = following.text()
    assert text.startswith("first attempt\n--- this log starts again")
    assert text.endswith(f"---\n{second}\nend\n")


def test_the_report_begins_with_the_traceback_of_the_rank_that_failed_first(following: Following) -> None:
    logs = ranks(3)
    other = ("Traceback (most recent call last):", '  File "c.py", line 1, in x', "DistBackendError: NCCL error")
    script = [f"say {logs['0']} {line}" for line in ("epoch 1", *other)]
    script += [f"say {logs['2']} {line}" for line in ("epoch 1", *RAISED)]
    job = following.submit("raised", *script, f"say {logs['1']} epoch 1", "exit 3")
    failure = following.watch(job)
    assert failure is not None
    assert failure.exit_code == 5
    _, _, told = failure.message.partition("\nThe first traceback, ")
    assert told.startswith("rank 2:\n" + "\n".join(RAISED) + "\nThe last lines of its log, rank 2:\nepoch 1\n")
    assert "The last lines of its log, rank 1:\nepoch 1" in told
    (ended,) = following.of(LogsEnded)
    assert [(one.rank, one.message) for one in ended.tracebacks] == [
        ("2", "ValueError: bad label"),
        ("0", "DistBackendError: NCCL error"),
    ]


def test_secrets_are_taken_out_wherever_storage_cuts_them(following: Following) -> None:
    job = following.submit("secret", f"fill {STD} 262140 0 0", f"say {STD} a-very-long-secret and more")
    assert following.watch(job, masker=Masker(["a-very-long-secret"])) is None
    text = following.text()
    assert text.endswith("*** and more\n")
    assert "secret" not in text
    assert len(text) == 262_140 + len("*** and more\n")


@pytest.mark.parametrize(("size", "count"), [("Standard_ND40rs_v2", 1), ("Standard_NC6s_v3", 0)])
def test_nccl_on_sockets_is_warned_of_where_the_cluster_has_infiniband(
    following: Following, size: str, count: int
) -> None:
    cluster = {
        "computeType": "AmlCompute",
        "properties": {"vmSize": size, "scaleSettings": {"minNodeCount": 0, "maxNodeCount": 1}},
    }
    name = size.lower().replace("_", "-")[:24]
    url = following.client.arm(f"computes/{name}")
    made = following.client.ask("PUT", url, json={"location": "eastus", "properties": cluster})
    assert made.status_code in (200, 201), made.text
    said = [
        f"say {STD} node0:38:38 [0] NCCL INFO {text}"
        for text in ("NET/IB : No device found.", "Using network Socket")
    ]
    assert following.watch(following.submit(f"nccl-{name}", *said, compute=name)) is None
    warnings = [notice.text for notice in following.of(Notice) if notice.level == "warning"]
    assert len(warnings) == count
    assert all(f"although nodes of {size} have InfiniBand" in text for text in warnings)
