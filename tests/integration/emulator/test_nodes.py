"""Jobs of several processes and nodes on the real Docker engine; MPI by Debian's Open MPI, without an ssh server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from aml_emulator.executor.ranks import MPI_LOG_PATH, log_paths
from aml_emulator.executor.spec import Folder, OutputSpec, RunSpec
from tests.integration.emulator.executor_bench import STORE, Bench, assert_clean, put_on_each_node, until

MEETING = Path(__file__).with_name("meeting.py")
RANKS = (0, 1, 2, 3)
FAILING = """
import os, signal, socket, sys, time

def end(*_):
    print("told", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
print("up", flush=True)
place = (os.environ["AZ_BATCH_NODE_LIST"].split(";")[1], 7000)
if os.environ["RANK"] == "3":
    with socket.create_server(("", place[1])) as server:
        met = [server.accept() for _ in range(3)]
    print("broken", flush=True)
    sys.exit(7)
while True:
    try:
        connection = socket.create_connection(place)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
while True:
    signal.pause()
"""
"""Rank 3 fails once the others have told it that they are up: by then SIGTERM has them say so."""


def told(bench: Bench, spec: RunSpec) -> str:
    """All logs of a run, for the message of a test that fails."""
    return "\n".join(f"{path}:\n{bench.log(spec, path).decode()}" for path in (*log_paths(spec), MPI_LOG_PATH))


def test_every_process_of_pytorch_knows_its_place_and_meets_the_others(
    bench: Bench, engine: docker.DockerClient
) -> None:
    bench.blobs.put(STORE, "code/meeting.py", MEETING.read_bytes())
    spec, sink = bench.submit(
        "python meeting.py && echo $RANK > outputs/rank-$RANK && echo $RANK > ${{outputs.all}}/$RANK && echo $RANK > outputs/last",
        launcher="pytorch",
        nodes=2,
        processes=2,
        code=Folder(container=STORE, prefix="code"),
        outputs=(OutputSpec(name="all", kind="uri_folder", location=Folder(container=STORE, prefix="out")),),
        environment_variables={"NO_PROXY": "intra.net"},
    )
    assert sink.wait() == "Completed", (sink.error, told(bench, spec))
    seen = [json.loads(bench.rank_log(spec, rank)) for rank in RANKS]
    assert [(one["RANK"], one["LOCAL_RANK"], one["NODE_RANK"]) for one in seen] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
        ("3", "1", "1"),
    ]
    first, second = seen[0]["addresses"], seen[3]["addresses"]
    for rank, one in enumerate(seen):
        assert one["met"] == [0, 1, 2, 3]
        assert one["host"] == f"node-{rank // 2}"
        assert (one["WORLD_SIZE"], one["MASTER_ADDR"], one["MASTER_PORT"]) == ("4", first, "6105")
        assert (one["AZUREML_NODE_COUNT"], one["AZ_BATCH_MASTER_NODE"]) == ("2", f"{first}:6000")
        assert (one["AZ_BATCH_NODE_LIST"], one["AZ_BATCH_HOST_LIST"]) == (f"{first};{second}", f"{first},{second}")
        assert one["NO_PROXY"] == f"localhost,127.0.0.1,node-0,node-1,intra.net,{first},{second}"
    assert set(sink.artifacts) == {"outputs/last", *(f"outputs/rank-{rank}" for rank in RANKS)}
    assert bench.artifact(spec, "outputs/last") in (b"0\n", b"1\n"), "the first node's file counts"
    assert {name for container, name in bench.blobs.content if name.startswith("out/")} == {
        f"out/{rank}" for rank in RANKS
    }
    assert sink.outputs == ["all"]
    assert sink.logs[:4] == [f"user_logs/std_log_process_{rank}.txt" for rank in RANKS]
    assert_clean(engine, bench)


def test_the_first_process_that_fails_ends_the_job_on_all_nodes_with_its_exit_code(
    bench: Bench, engine: docker.DockerClient
) -> None:
    bench.blobs.put(STORE, "failing/fail.py", FAILING.encode())
    code = Folder(container=STORE, prefix="failing")
    spec, sink = bench.submit("exec python fail.py", launcher="pytorch", nodes=2, processes=2, code=code)
    assert sink.wait() == "Failed"
    assert sink.error is not None
    assert (sink.error.code, sink.error.exit_code) == ("UserError", 7)
    assert "Rank 3 of the job's command, on node 1, exited with status code 7." in sink.error.message
    assert "'user_logs/std_log_process_3.txt'" in sink.error.message
    assert sink.error.message.endswith("The last lines of its output:\nup\nbroken")
    # A shell also tells of what was ended under it; SIGKILL comes some seconds after SIGTERM, whatever was said by then.
    others = [bench.rank_log(spec, rank).splitlines() for rank in (0, 1, 2)]
    assert [lines[0] for lines in others] == ["up", "up", "up"]
    assert any("told" in lines for lines in others), others
    assert_clean(engine, bench)


@pytest.mark.full
def test_cancelling_and_the_time_limit_reach_every_process(
    bench: Bench, engine: docker.DockerClient, mpi_image: str
) -> None:
    spec, sink = bench.submit("echo up; sleep 3600", launcher="mpi", nodes=2, processes=2, image=mpi_image)
    _, limited = bench.submit("sleep 3600", launcher="mpi", nodes=2, processes=1, image=mpi_image, timeout_seconds=1)
    until(lambda: all(bench.rank_log(spec, rank) == "up\n" for rank in RANKS), sink)
    assert bench.runner.cancel(spec.run_id)
    assert sink.wait() == limited.wait() == "Canceled"
    assert sink.error is None
    assert limited.error is not None
    assert "longer than its limits.timeout" in limited.error.message
    assert_clean(engine, bench)


@pytest.mark.full
def test_a_job_on_several_nodes_is_taken_up_after_a_restart(
    make_bench: Callable[..., Bench], engine: docker.DockerClient, mpi_image: str
) -> None:
    before = make_bench()
    before.runner.start()
    spec, sink = before.submit(
        "echo one; until [ -e /tmp/end ]; do sleep 0.1; done; printf two",
        launcher="mpi",
        nodes=2,
        processes=2,
        image=mpi_image,
    )
    until(lambda: all(before.rank_log(spec, rank) == "one\n" for rank in RANKS), sink)
    before.runner.close()
    after = make_bench(of=before)
    taken = after.sink_for(spec.run_id)
    after.runner.adopt((spec,))
    after.runner.start()
    taken.wait_status("Running")
    put_on_each_node(engine, spec, "end")
    assert taken.wait() == "Completed", (taken.error, told(after, spec))
    assert [after.rank_log(spec, rank) for rank in RANKS] == ["one\ntwo"] * 4
    assert_clean(engine, after)


@pytest.mark.full
def test_a_node_that_vanished_while_the_emulator_was_away_fails_the_job(
    make_bench: Callable[..., Bench], engine: docker.DockerClient
) -> None:
    before = make_bench()
    before.runner.start()
    spec, sink = before.submit("echo up; sleep 3600", launcher="pytorch", nodes=2)
    until(lambda: all(before.rank_log(spec, rank) == "up\n" for rank in (0, 1)), sink)
    before.runner.close()
    engine.containers.get(f"aml-{before.settings.instance[:8]}-{spec.run_id}-1").remove(force=True)
    after = make_bench(of=before)
    taken = after.sink_for(spec.run_id)
    after.runner.adopt((spec,))
    assert taken.wait() == "Failed"
    assert taken.error is not None
    assert (taken.error.code, taken.error.message) == (
        "SystemError",
        "Of the job's 2 nodes 1 are left; the others vanished meanwhile.",
    )
    assert_clean(engine, after)


@pytest.mark.full
def test_two_jobs_on_several_nodes_do_not_see_one_another(bench: Bench) -> None:
    bench.blobs.put(STORE, "code/meeting.py", MEETING.read_bytes())
    code = Folder(container=STORE, prefix="code")
    jobs = [bench.submit("python meeting.py", launcher="pytorch", nodes=2, code=code) for _ in range(2)]
    networks = set()
    for spec, sink in jobs:
        assert sink.wait() == "Completed", (sink.error, told(bench, spec))
        seen = [json.loads(bench.rank_log(spec, rank)) for rank in (0, 1)]
        assert [one["met"] for one in seen] == [[0, 1]] * 2
        networks.add(seen[0]["MASTER_ADDR"].rpartition(".")[0])
    assert len(networks) == 2
