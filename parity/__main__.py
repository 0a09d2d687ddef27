"""``python -m parity``: compare recordings with the local AzureML; publish them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aml_train.azure.parity.file import Recording, read_recording
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from parity.accepted import FILE, Judged, judge, read_accepted
from parity.differences import SEVERITIES, compare
from parity.results import FOLDER, result_of, write_result

EQUAL: Final = 0
DIFFERENT: Final = 3
STALE: Final = 4
_EXITS: Final = (
    "exit codes: 0 equal, 2 arguments, 3 differences without a reason, 4 only stale reasons, 8 no local AzureML"
)
_HOUR: Final = 3600


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or publish; return the exit code."""
    parser = argparse.ArgumentParser(prog="parity", description=__doc__, epilog=_EXITS)
    commands = parser.add_subparsers(dest="command", required=True)
    comparing = commands.add_parser("compare", help="hold the local AzureML against a recording", epilog=_EXITS)
    publishing = commands.add_parser("publish", help="compare, and put the results into the page of operations")
    comparing.add_argument("file", type=Path, metavar="FILE", help="written by `aml-train parity record`")
    comparing.add_argument("--json", action="store_true", help="print the differences as JSON")
    publishing.add_argument("files", type=Path, nargs="+", metavar="FILE", help="recordings")
    publishing.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="the results' folder")
    for one in (comparing, publishing):
        one.add_argument(
            "--against", type=Path, metavar="FILE", help="this recording of a local AzureML, not a new one"
        )
        one.add_argument("--image", metavar="IMAGE", help="image of the local jobs; by default that of the recording")
        one.add_argument("--accepted", type=Path, default=FILE, metavar="FILE", help="reasons for known differences")
    options = parser.parse_args(arguments)
    try:
        return _compare(options) if options.command == "compare" else _publish(options)
    except AmlTrainError as error:
        print(f"parity: {error}", file=sys.stderr)
        return error.exit_code


def _compare(options: argparse.Namespace) -> int:
    recorded = read_recording(options.file)
    accepted = read_accepted(options.accepted)
    local = _local(options)
    judged = judge(compare(recorded, local), accepted, recorded.steps())
    if options.json:
        print(json.dumps(result_of(options.file.stem, recorded, judged).__dict__, indent=1))
    else:
        _print(judged, recorded)
    return DIFFERENT if judged.left else STALE if judged.stale else EQUAL


def _publish(options: argparse.Namespace) -> int:
    accepted, local = read_accepted(options.accepted), None
    for file in options.files:
        recorded = read_recording(file)
        local = local or _local(options)
        judged = judge(compare(recorded, local), accepted, recorded.steps())
        written = write_result(result_of(file.name.partition(".")[0], recorded, judged), options.into)
        print(f"{written}: {len(judged.left)} differences, {len(judged.accepted)} with a reason")
    if options.into == FOLDER:
        done = subprocess.run([sys.executable, "-m", "scripts.docs", "write"], check=False)
        return done.returncode
    return EQUAL


def _local(options: argparse.Namespace) -> Recording:
    """Return the given recording of the local AzureML, or a new one."""
    if options.against is not None:
        return read_recording(options.against)
    from aml_train.core.events import Event
    from aml_train.local import EmulatorSettings, client_environment, start_emulator

    def silent(_event: Event) -> None:
        """The recording's own lines follow."""

    info = start_emulator(EmulatorSettings.from_environment(dict(os.environ)), silent)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "local.jsonl"
        names = ("--subscription", info.subscription_id, "--resource-group", info.resource_group)
        argv = [sys.executable, "-m", "aml_train", "parity", "record", *names, "--workspace", info.workspace]
        argv += ["--compute", info.compute, "--output", str(file), "--yes"]
        argv += ["--image", options.image] if options.image else []
        variables = {**client_environment(info, dict(os.environ)), "AML_TRAIN_SIGN_IN": "secret"}
        done = subprocess.run(argv, env={**os.environ, **variables}, check=False, timeout=_HOUR)
        if done.returncode != 0:
            raise ServiceError(f"The local AzureML could not be recorded: exit code {done.returncode}.")
        return read_recording(file)


def _print(judged: Judged, recorded: Recording) -> None:
    for severity in SEVERITIES:
        for one in judged.left:
            if one.severity == severity:
                print(one)
    for stale in judged.stale:
        print(f"stale: {stale.step} {stale.place} ({stale.kind}): nothing differs there any more: {stale.reason}")
    counts = Counter(one.severity for one in judged.left)
    shown = (
        ", ".join(f"{counts[severity]} {severity}s" for severity in SEVERITIES if counts[severity]) or "no difference"
    )
    print(
        f"{len(recorded.steps())} steps, {len(recorded.exchanges())} requests: {shown}; {len(judged.accepted)} accepted"
    )


if __name__ == "__main__":
    if not Path("parity/__main__.py").exists():
        raise SystemExit(InvalidError("Run it in the repository's root.").message)
    sys.exit(main())
