"""Run the entry script of a parallel node over mini-batches of its input, as AzureML does.

It is copied into the job as ``aml_parallel_run.py``; the image's own Python, 3.7 or later, runs it. It imports nothing of aml-train.

Called as ``python aml_parallel_run.py INPUT APPEND SETTINGS ENTRY ARGUMENT...``: the path of the input, the file that results
are appended to or ``-``, the settings as JSON in base64, the entry script with its arguments. Meaning of the settings:
https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-parallel; of the script's functions ``init()`` and
``run(mini_batch)``: https://learn.microsoft.com/azure/machine-learning/how-to-use-parallel-job-in-pipeline. A mini-batch is a
list of paths, or a DataFrame of an input with an MLTable file that reads a table.
"""

import argparse
import base64
import importlib.util
import inspect
import json
import multiprocessing
import os
import re
import signal
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Dict, Iterator, List, Tuple

_TABLES = re.compile(r"^\s*-\s*read_(delimited|parquet|json_lines|delta_lake)", re.MULTILINE)
_UNITS = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


class Context:
    """What a script may know of its mini-batch: the second argument of ``run``."""

    def __init__(self, index: int, key: Dict[str, Any]) -> None:
        self.minibatch_index = str(index)
        self.mini_batch_id = str(index)
        self.partition_key_value = key


def batches(path: str, settings: Dict[str, Any]) -> Iterator[Tuple[Any, Dict[str, Any]]]:
    """Yield the mini-batches, each with its partition's key."""
    table = os.path.join(path, "MLTable")
    keys = settings.get("partition_keys") or []
    size = str(settings.get("mini_batch_size") or 1).strip().lower()
    if os.path.isfile(table):
        with open(table, encoding="utf-8") as file:
            if _TABLES.search(file.read()):
                yield from tables(path, keys, size)
                return
    if keys:
        raise SystemExit("partition_keys of files is not supported by the local AzureML: only those of a table are")
    if not size.isdigit() or size == "0":
        raise SystemExit("mini_batch_size of files is a number of files, not '%s'" % size)
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    files = files or [path]
    for start in range(0, len(files), int(size)):
        yield files[start : start + int(size)], {}


def tables(path: str, keys: List[str], size: str) -> Iterator[Tuple[Any, Dict[str, Any]]]:
    try:
        import mltable  # type: ignore[import-not-found]
    except ImportError as error:
        raise SystemExit("the image needs the package mltable to read %s, as on Azure: %s" % (path, error)) from error
    frame = mltable.load(path).to_pandas_dataframe()
    if keys:
        for key, part in frame.groupby(keys):
            yield part.reset_index(drop=True), dict(zip(keys, key if isinstance(key, tuple) else (key,)))
        return
    found = re.match(r"(\d+)\s*(kb|mb|gb)?$", size)
    if found is None:
        raise SystemExit("mini_batch_size of a table is a size such as 10kb, not '%s'" % size)
    row = max(1, len(frame.to_csv(index=False, header=False)) // max(1, len(frame)))
    rows = max(1, int(found.group(1)) * _UNITS[found.group(2) or ""] // row)
    for start in range(0, len(frame), rows):
        yield frame.iloc[start : start + rows].reset_index(drop=True), {}


script = None  # type: Any


def begin(entry: str, arguments: List[str]) -> None:
    """Load the entry script in a worker, and prepare it."""
    global script
    sys.argv = [entry] + arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(entry)))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(entry))[0], entry)
    if spec is None or spec.loader is None:
        raise SystemExit("there is no entry script %s" % entry)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    if hasattr(script, "init"):
        script.init()


def overdue(_number: int, _frame: Any) -> None:
    raise TimeoutError("the mini-batch took longer than retry_settings.timeout")


def work(number: int, batch: Any, key: Dict[str, Any], tries: int, timeout: int) -> Tuple[int, int, int, Any]:
    """Run one mini-batch; return its number, its items, the items that failed, and the results; None if it failed."""
    several = len(inspect.signature(script.run).parameters) > 1
    signal.signal(signal.SIGALRM, overdue)
    for left in range(tries, -1, -1):
        signal.alarm(timeout)
        try:
            results = script.run(batch, Context(number, key)) if several else script.run(batch)
            return number, len(batch), max(0, len(batch) - len(results)), results
        except Exception:
            traceback.print_exc()
            print("mini-batch %d failed; %s" % (number, "%d tries left" % left if left else "given up"), flush=True)
        finally:
            signal.alarm(0)
    return number, len(batch), len(batch), None


def append(path: str, results: Any) -> None:
    """Append what ``run`` returned: a line for each item, rows of a DataFrame with spaces between the values."""
    with open(path, "a", encoding="utf-8") as file:
        if hasattr(results, "to_csv"):
            results.to_csv(file, sep=" ", header=False, index=False)
        else:
            file.writelines("%s\n" % (item,) for item in results)


def main() -> None:
    path, target, encoded, entry = sys.argv[1:5]
    settings = json.loads(base64.b64decode(encoded))
    system = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    system.add_argument("--allowed_failed_count", type=int, default=-1)
    system.add_argument("--allowed_failed_percent", type=float, default=100.0)
    allowed, _ = system.parse_known_args(sys.argv[5:])
    retry = settings.get("retry_settings") or {}
    tries, timeout = int(retry.get("max_retries") or 0), int(retry.get("timeout") or 60)
    tasks = [(number, batch, key, tries, timeout) for number, (batch, key) in enumerate(batches(path, settings))]
    processes = max(1, min(int(settings.get("processes") or os.cpu_count() or 1), len(tasks)))
    print("%d mini-batches, %d processes" % (len(tasks), processes), flush=True)
    if target != "-":
        open(target, "a", encoding="utf-8").close()
    failed = items = 0
    # Each process is a new one: what a script opens in init() may not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, initializer=begin, initargs=(entry, sys.argv[5:])) as pool:
        try:
            for future in as_completed([pool.submit(work, *task) for task in tasks]):
                number, count, lost, results = future.result()
                failed += results is None
                items += lost
                print("mini-batch %d: %d of %d items" % (number, count - lost, count), flush=True)
                if results is not None and target != "-":
                    append(target, results)
        except BrokenProcessPool as error:
            raise SystemExit("the entry script's init() failed, or a process was killed: see above") from error
    bounds = (
        ("mini_batch_error_threshold", failed, int(settings.get("mini_batch_error_threshold", -1))),
        ("error_threshold", items, int(settings.get("error_threshold", -1))),
        ("allowed_failed_count", failed, allowed.allowed_failed_count),
        ("allowed_failed_percent", failed, int(allowed.allowed_failed_percent * len(tasks) / 100)),
    )
    print("%d of %d mini-batches failed, %d items" % (failed, len(tasks), items), flush=True)
    for name, found, bound in bounds:
        if 0 <= bound < found:
            raise SystemExit("more failed than %s allows: %d, and not %d" % (name, found, bound))


if __name__ == "__main__":
    main()
