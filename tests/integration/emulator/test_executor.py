"""Jobs on the real Docker engine; Blob storage and the service's side are in memory."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import docker
import pytest
import requests

from aml_emulator.executor.spec import LOG_PATH, Folder, InputSpec, OutputSpec
from tests.integration.emulator.executor_bench import STORE, Bench, assert_clean, nodes, own, put_on_each_node, until
from tests.support.fake_executor import HANGING_SECONDS


def test_a_job_gets_its_code_inputs_and_environment_and_its_outputs_are_kept(
    bench: Bench, engine: docker.DockerClient
) -> None:
    code = (
        "import os, pathlib, sys\n"
        "assert os.getcwd() == f'/mnt/azureml/cr/j/{os.environ[\"RUN\"]}/exe/wd', os.getcwd()\n"
        "assert os.getuid() == 0\n"
        "rate, data, table, model, report = sys.argv[1:]\n"
        "print(rate, pathlib.Path(data).name, pathlib.Path(data).read_text())\n"
        "print(sorted(p.name for p in pathlib.Path(table).rglob('*') if p.is_file()))\n"
        "print(pathlib.Path(os.environ['SSL_CERT_FILE']).read_text().strip())\n"
        "for name in ('HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'NO_PROXY', 'USERS'): print(name, os.environ[name])\n"
        "pathlib.Path(model, 'sub').mkdir(); pathlib.Path(model, 'sub', 'weights').write_bytes(b'w' * 3_000_000)\n"
        "pathlib.Path(report).write_text('fine')\n"
        "out = pathlib.Path('outputs'); (out / 'a.txt').write_text('A'); (out / 'empty').mkdir()\n"
        "(out / 'latest').symlink_to('a.txt'); (out / 'twice').symlink_to('latest')\n"
        "(out / 'passwd').symlink_to('/etc/passwd'); os.link(out / 'a.txt', out / 'hard'); os.mkfifo(out / 'fifo')\n"
        "pathlib.Path('logs', 'own.log').write_text('own')\n"
        "import shutil; print(shutil.disk_usage('/dev/shm').total)\n"
        "os.makedirs('data/__pycache__'); pathlib.Path('model.joblib').write_bytes(b'm' * 3_000)\n"
        "for name in ('data/x.csv', 'data/__pycache__/a.pyc', '.cache'): pathlib.Path(name).write_text('x')\n"
        "os.symlink('model.joblib', 'latest'); open('src/main.py', 'a').write('#')\n"
    )
    bench.blobs.put(STORE, "code/1/src/main.py", code.encode())
    bench.blobs.put(STORE, "code/1/run.sh", b'#!/bin/sh\nexec python src/main.py "$@"\n')
    bench.blobs.put(STORE, "data/one.csv", b"1,2")
    bench.blobs.put(STORE, "table/x/1.csv", b"x")
    bench.blobs.put(STORE, "table/2.csv", b"y" * 2_000_000)
    run_id = f"run-{secrets.token_hex(4)}"
    spec, sink = bench.submit(
        "./run.sh ${{inputs.rate}} ${{inputs.data}} ${{inputs.table}} ${{outputs.model}} ${{outputs.report}}",
        run_id=run_id,
        code=Folder(container=STORE, prefix="code/1"),
        environment_variables={"USERS": "own", "HTTPS_PROXY": "http://mine", "NO_PROXY": "intra.net,.azure.com"},
        service_environment={"RUN": run_id},
        inputs=(
            InputSpec(name="rate", kind="literal", literal="0.1"),
            InputSpec(name="data", kind="uri_file", location=Folder(container=STORE, prefix="data/one.csv")),
            InputSpec(name="table", kind="uri_folder", location=Folder(container=STORE, prefix="table/")),
        ),
        outputs=(
            OutputSpec(name="model", kind="uri_folder", location=Folder(container=STORE, prefix="out/model")),
            OutputSpec(name="report", kind="uri_file", location=Folder(container=STORE, prefix="out/report.txt")),
        ),
        shm_bytes=64 * 1024**2,
    )
    assert sink.wait() == "Completed", (sink.error, bench.log(spec))
    lines = bench.log(spec).decode().splitlines()
    assert lines[:3] == ["0.1 one.csv 1,2", "['1.csv', '2.csv']", "-----BEGIN CERTIFICATE-----"]
    environment = dict(line.split(" ", 1) for line in lines[3:8])
    assert environment["HTTPS_PROXY"] == environment["https_proxy"] == environment["HTTP_PROXY"]
    assert environment["HTTPS_PROXY"].endswith(":7380")
    assert environment["NO_PROXY"] == "localhost,127.0.0.1,intra.net"
    assert environment["USERS"] == "own"
    assert int(lines[8]) == 64 * 1024**2
    assert sink.statuses == ["Preparing", "Running", "Finalizing"]
    assert sink.lost == {"model.joblib": 3_000, "data/x.csv": 1}
    assert sink.outputs == ["model", "report"]
    assert bench.blobs.content[STORE, "out/model/sub/weights"] == b"w" * 3_000_000
    assert bench.blobs.content[STORE, "out/report.txt"] == b"fine"
    assert sink.artifacts == {
        "outputs/a.txt": 1,
        "outputs/latest": 1,
        "outputs/twice": 1,
        "outputs/hard": 1,
        "logs/own.log": 3,
    }
    assert bench.artifact(spec, "outputs/twice") == b"A"
    notes = bench.artifact(spec, "system_logs/emulator.log").decode()
    assert "HTTPS_PROXY of the job gave way" in notes
    assert "outputs/fifo is not a regular file" in notes
    assert "outputs/passwd links outside" in notes
    assert set(sink.logs) == {LOG_PATH, "system_logs/emulator.log"}
    assert_clean(engine, bench)


@pytest.mark.parametrize(
    ("command", "code", "tail"),
    [
        ("echo one; echo two >&2; exit 3", 3, "one\ntwo"),
        ("kill -9 $$", 137, ""),
        ("nonexistent-command", 127, "nonexistent-command: command not found"),
        ("python -c 'raise ValueError(41)'", 1, "ValueError: 41"),
    ],
)
def test_a_failing_command_fails_the_run(bench: Bench, command: str, code: int, tail: str) -> None:
    _, sink = bench.submit(command)
    assert sink.wait() == "Failed"
    assert sink.error is not None
    assert (sink.error.code, sink.error.exit_code) == ("UserError", code)
    assert re.search(rf"status code {code}[.:]", sink.error.message)
    assert tail in sink.error.message
    assert sink.statuses[-1] == "Finalizing"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # Bounded, should the limit not be there.
        ("[os.fork() or time.sleep(30) or os._exit(0) for _ in range(200)]", "Resource temporarily unavailable"),
        ("len(bytearray(2**29))", "killed because the memory ran out"),
    ],
)
def test_a_job_that_wants_all_processes_or_memory_ends(
    make_bench: Callable[..., Bench], line: str, said: str
) -> None:
    bench = make_bench(job_processes=60, job_memory=100 * 2**20)
    bench.runner.start()
    _, sink = bench.submit(f"exec python -c 'import os, time; {line}'", shm_bytes=2**20)
    assert sink.wait() == "Failed"
    assert sink.error is not None
    assert said in sink.error.message


def test_a_cancelled_job_may_clean_up_and_keeps_its_outputs(
    bench: Bench, engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ends by itself, as soon as the machine lets it.
    monkeypatch.setattr("aml_emulator.executor.engine.STOP_GRACE_SECONDS", int(HANGING_SECONDS))
    script = "trap 'echo bye; echo late > outputs/b; exit 0' TERM; echo early > outputs/a; echo up; while :; do sleep 0.1; done"
    spec, sink = bench.submit(script)
    until(lambda: b"up" in bench.log(spec), sink)
    assert bench.runner.cancel(spec.run_id)
    assert sink.wait() == "Canceled"
    assert sink.error is None
    assert bench.log(spec).endswith(b"bye\n")
    assert set(sink.artifacts) == {"outputs/a", "outputs/b"}
    assert not bench.runner.cancel("unknown")
    assert_clean(engine, bench)


def test_a_preempted_job_runs_again_and_finds_only_its_mounted_outputs(
    bench: Bench, engine: docker.DockerClient
) -> None:
    script = (
        "ls outputs ${{outputs.kept}}; echo a >> outputs/a; echo b >> ${{outputs.kept}}/b; echo up;"
        " [ $(wc -l < ${{outputs.kept}}/b) = 2 ] || sleep 3600"
    )
    place = OutputSpec(name="kept", kind="uri_folder", location=Folder(container=STORE, prefix="kept"))
    spec, sink = bench.submit(script, outputs=(place,))
    sink.following = dataclasses.replace(spec, attempt=2, requeued=1.0)
    until(lambda: b"up" in bench.log(spec), sink)
    assert b"b\n" not in bench.log(spec)
    assert bench.runner.preempt(spec.run_id)
    assert sink.wait() == "Completed"
    assert sink.statuses == ["Preparing", "Running", "Preparing", "Running", "Finalizing"]
    assert re.fullmatch(rb"/\S+/kept:\nb\n\noutputs:\nup\n", bench.log(spec)), "the log begins again"
    assert bench.artifact(spec, "outputs/a") == b"a\n"
    assert bench.blobs.content[STORE, "kept/b"] == b"b\nb\n"
    assert not bench.runner.preempt("unknown")
    assert_clean(engine, bench)


def test_a_job_beyond_its_time_limit_is_cancelled_and_says_so(bench: Bench) -> None:
    _, sink = bench.submit("sleep 3600", timeout_seconds=1)
    assert sink.wait() == "Canceled"
    assert sink.error is not None
    assert "longer than its limits.timeout of 1 seconds" in sink.error.message


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": "localhost:9/none:1"}, "The image localhost:9/none:1 cannot be used"),
        (
            {"image": "amllocal.azurecr.io/x@sha256:" + "0" * 64},
            "The image amllocal.azurecr.io/x@sha256:" + "0" * 64 + " cannot be used",
        ),
        ({"code": Folder(container=STORE, prefix="nowhere")}, "nothing stored at store/nowhere"),
        ({"code": Folder(container=STORE, prefix="bad")}, "is not a path inside its folder"),
        ({"command": "echo ${{inputs.none}}"}, "inputs.none"),
    ],
)
def test_what_cannot_start_fails_and_says_why(
    bench: Bench, engine: docker.DockerClient, changes: Mapping[str, Any], expected: str
) -> None:
    bench.blobs.put(STORE, "bad/../../etc/passwd", b"x")
    _, sink = bench.submit(**{"command": "true"} | dict(changes))
    assert sink.wait() == "Failed"
    assert sink.error is not None
    assert sink.error.code == "UserError"
    assert expected in sink.error.message
    assert_clean(engine, bench)


def test_a_running_job_is_taken_up_after_a_restart(
    make_bench: Callable[..., Bench], engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_bench()
    before.runner.start()
    going, going_sink = before.submit(
        "until [ -e /tmp/end ]; do i=$((i+1)); echo $i; sleep 0.1; done; printf end; echo o > outputs/o"
    )
    failing, failing_sink = before.submit("printf gone; exit 4")
    vanished = before.spec("true")
    before.blobs.put(vanished.artifacts.container, vanished.artifacts.name_of(LOG_PATH), b"it had begun")
    waiting = before.spec("echo later")
    going_sink.wait_status("Running")
    assert [one.attrs["Internal"] for one in engine.networks.list(filters=own(before.settings.instance))][:1] == [
        True
    ]
    failing_sink.wait()
    until(lambda: b"3\n" in before.log(going), going_sink)
    before.runner.close()
    (container,) = nodes(engine, going)
    until(lambda: len(container.logs()) > len(before.log(going)), going_sink)

    after = make_bench(of=before)
    sinks = {spec.run_id: after.sink_for(spec.run_id) for spec in (going, vanished, waiting)}
    with monkeypatch.context() as patch:
        patch.setattr(after.runner._engine, "find", lost_at(after, vanished.run_id))
        with pytest.raises(requests.exceptions.ConnectionError):
            after.runner.adopt((going, vanished, waiting))
    assert after.runner.active() == (going.run_id,), "and what was taken up before the engine was lost stays so"
    after.runner.adopt((vanished, waiting))
    after.runner.start()
    assert sinks[vanished.run_id].wait() == "Failed"
    error = sinks[vanished.run_id].error
    assert error is not None
    assert (error.code, "vanished" in error.message) == ("SystemError", True)
    assert sinks[waiting.run_id].wait() == "Completed"
    sinks[going.run_id].wait_status("Running")
    put_on_each_node(engine, going, "end")
    assert sinks[going.run_id].wait() == "Completed"
    assert after.log(waiting) == b"later\n"
    *lines, last = after.log(going).decode().split("\n")
    assert (lines, last) == ([str(i) for i in range(1, len(lines) + 1)], "end")
    assert sinks[going.run_id].artifacts == {"outputs/o": 2}
    assert going_sink.ending is None
    assert failing.run_id not in after.sinks
    assert_clean(engine, after)


def lost_at(bench: Bench, run_id: str) -> Callable[[str], Any]:
    """Return the engine's search for containers, which loses the connection at one run."""
    really_find = bench.runner._engine.find

    def find(wanted: str) -> Any:
        if wanted == run_id:
            raise requests.exceptions.ConnectionError("lost")
        return really_find(wanted)

    return find
