from __future__ import annotations

import pytest

from aml_train.jobs.logs.names import chosen, log_name


@pytest.mark.parametrize(
    ("path", "system", "rank"),
    [
        ("user_logs/std_log.txt", False, ""),
        ("user_logs/std_log_process_0.txt", False, "0"),
        ("user_logs/std_log_process_07.txt", False, "7"),
        ("user_logs/std_log_process_128.txt", False, "128"),
        ("user_logs/std_log_3.txt", False, "3"),
        ("user_logs/std_log_worker_1.txt", False, "worker 1"),
        (f"user_logs/std_log_{'9' * 5000}.txt", False, "9" * 5000),
        ("user_logs/std_log_ps_00.txt", False, "ps 0"),
        ("user_logs/std_log_process_1_ps.txt", False, "ps 1"),
        ("user_logs/10.0.0.5/std_log_process_1.txt", False, "10.0.0.5, 1"),
        ("user_logs/retry_001/std_log.txt", False, "retry_001"),
        ("user_logs/mine.txt", False, ""),
        ("azureml-logs/70_driver_log.txt", False, ""),
        ("azureml-logs/70_driver_log_0.txt", False, "0"),
        ("azureml-logs/70_driver_log_rank_3.txt", False, "3"),
        ("azureml-logs/80_driver_log_worker_2.txt", False, "worker 2"),
        ("azureml-logs/20_image_build_log.txt", False, ""),
        ("azureml-logs/55_azureml-execution-tvmps_1.txt", True, ""),
        ("azureml-logs/65_job_prep-tvmps_1.txt", True, ""),
        ("system_logs/cs_capability/cs-capability.log", True, ""),
        ("logs/azureml/executionlogs.txt", True, ""),
        ("logs/events.out.tfevents.1", True, ""),
    ],
)
def test_a_path_tells_whose_log_it_is(path: str, system: bool, rank: str) -> None:
    name = log_name(path)
    assert (name.path, name.system, name.rank) == (path, system, rank)


def test_ranks_are_sorted_as_numbers_and_the_image_comes_first() -> None:
    paths = [f"user_logs/std_log_process_{number}.txt" for number in (10, 2, 0)]
    found = chosen(
        [*paths, "azureml-logs/20_image_build_log.txt", "system_logs/a.log", "logs/tb/events.1"], every=False
    )
    assert [name.path for name in found] == [
        "azureml-logs/20_image_build_log.txt",
        *(f"user_logs/std_log_process_{number}.txt" for number in (0, 2, 10)),
    ]


def test_azuremls_own_logs_come_on_demand_and_binary_files_never() -> None:
    paths = ["system_logs/lifecycler/execution.log", "user_logs/std_log.txt", "logs/tb/events.1", "logs/own.txt"]
    assert [name.path for name in chosen(paths, every=True)] == [
        "user_logs/std_log.txt",
        "logs/own.txt",
        "system_logs/lifecycler/execution.log",
    ]
