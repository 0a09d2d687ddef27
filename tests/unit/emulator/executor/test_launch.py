"""How a job's command is started, as far as that shows without starting it."""

from __future__ import annotations

import pytest

from aml_emulator.executor import ranks
from aml_emulator.executor.launch import Launcher
from aml_emulator.executor.spec import Folder, RunSpec

COMMAND = "echo 'x y'; exit 1"


def spec(launcher: Launcher, **changes: int) -> RunSpec:
    return RunSpec(
        run_id="r",
        experiment="e",
        display_name="d",
        command=COMMAND,
        image="i",
        artifacts=Folder(container="c", prefix="p"),
        environment_variables={"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_plm_rsh_agent": "theirs"},
        launcher=launcher,
        **changes,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("job", "node", "rest"),
    [
        (spec("once"), 0, (COMMAND,)),
        (spec("pytorch", nodes=2, processes=3), 1, (COMMAND, "3")),
        (spec("tensorflow", nodes=2, workers=2, servers=1), 0, (COMMAND, "2")),
        (spec("tensorflow", nodes=2, workers=1), 1, (COMMAND, "0")),
        (spec("mpi", processes=3), 0, (COMMAND, "3", "", "3")),
        (spec("mpi", nodes=2, processes=3), 0, (COMMAND, "6", "node-0:3,node-1:3", "3")),
        (spec("mpi", nodes=2, processes=3), 1, ("listen", "node-1")),
    ],
    ids=lambda value: value.launcher if isinstance(value, RunSpec) else None,
)
def test_the_command_is_an_argument_of_its_own(job: RunSpec, node: int, rest: tuple[str, ...]) -> None:
    words = ranks.argv(job, COMMAND, node)
    assert words[:2] == ("/bin/sh", "-c")
    assert words[3:] == rest
    assert COMMAND not in words[2]


@pytest.mark.parametrize(
    ("job", "logs"),
    [
        (spec("once"), ["std_log"]),
        (spec("pytorch"), ["std_log_process_0"]),
        (spec("mpi", nodes=2, processes=2), [f"std_log_process_{rank}" for rank in range(4)]),
        (spec("pytorch", nodes=3, processes=4), [f"std_log_process_{rank:02}" for rank in range(12)]),
        (
            spec("tensorflow", nodes=2, workers=2, servers=1),
            ["std_log_process_0", "std_log_process_1", "std_log_process_0_ps"],
        ),
    ],
)
def test_logs_are_named_by_rank_with_as_many_digits_as_the_highest(job: RunSpec, logs: list[str]) -> None:
    assert [path.removeprefix("user_logs/").removesuffix(".txt") for path in ranks.log_paths(job)] == logs
