"""Work on each node before a job's command: links to data, and ``setup:``. Pure.

AzureML runs the command of a distributed job once for each process, several of them on a node at the same time and in one
container (https://learn.microsoft.com/azure/machine-learning/how-to-train-distributed-gpu): the first one does the work under
a lock, the others wait for it and see how it ended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aml_train.config.sections.code import DataLink, SetupCommand
from aml_train.core.errors import Fault, InvalidError
from aml_train.core.files import FileSet

_BEGIN: Final = r"""# By aml-train: what this node needs before the job's own command.
(
aml_train_state="/tmp/aml-train-${AZUREML_RUN_ID:-job}-$(cut -d' ' -f22 /proc/1/stat 2>/dev/null)"
aml_train_say() { printf 'aml-train: %s\n' "$1" >&2; }
aml_train_end() { printf '%s\n' "$1" >"$aml_train_state.done"; exit "$1"; }
if ! command -v flock >/dev/null 2>&1; then
  aml_train_say 'data and setup of aml-train.yml need the program flock in the image: install util-linux'
  exit 1
fi
exec 9>>"$aml_train_state.lock" && flock 9 || { aml_train_say "cannot lock $aml_train_state.lock"; exit 1; }
if [ -s "$aml_train_state.done" ]; then
  read -r aml_train_code <"$aml_train_state.done"
  [ "$aml_train_code" = 0 ] || aml_train_say 'the setup failed in another process of this node: its log says why'
  exit "$aml_train_code"
fi
"""
_LINK: Final = r"""aml_train_link() {
  if [ -e "$1" ] || [ -L "$1" ]; then
    aml_train_say "data: cannot link $1: there is such a file or folder in the job's working directory"
    aml_train_end 1
  fi
  mkdir -p -- "$(dirname -- "$1")" && ln -s -- "$aml_train_to" "$1" && return
  aml_train_say "data: cannot link $1"
  aml_train_end 1
}
"""
_SETUP: Final = r"""aml_train_setup() {
  aml_train_say "setup $1: $2"
  "${BASH:-/bin/sh}" -ec "$2" </dev/null 9>&- && return
  aml_train_code=$?
  aml_train_say "setup $1 failed with exit code $aml_train_code: $2"
  aml_train_end "$aml_train_code"
}
"""
_END: Final = """aml_train_end 0
) || exit
"""
_MARK: Final = "AML_TRAIN_PATH"


def add_setup(
    document: Mapping[str, Any], setup: Sequence[SetupCommand], links: Sequence[DataLink]
) -> Mapping[str, Any]:
    """Return *document* with inputs for *links*, and the command prefixed."""
    if not setup and not links:
        return document
    inputs = dict(document.get("inputs") or {})
    names: dict[str, str] = {}
    for link in links:
        names[link.local] = name = _input_name(link.local, inputs)
        inputs[name] = {"type": link.type, "path": link.path, "mode": link.mode}
    changed = {**document, "command": script(setup, links, names) + str(document["command"])}
    return {**changed, "inputs": inputs} if links else changed


def script(setup: Sequence[SetupCommand], links: Sequence[DataLink], names: Mapping[str, str]) -> str:
    """Return the prologue in POSIX shell; it ends with a line break.

    AzureML inserts the path of an input as it is: it is in a here-document, which the shell takes for text. No line
    number of the configuration is in it: a comment above would make another job.

    Args:
        setup: the commands, in their order.
        links: what is linked before them.
        names: local path → the name of the input.
    """
    parts = [_BEGIN]
    if links:
        parts.append(_LINK)
    for link in links:
        parts.append(f"IFS= read -r aml_train_to <<'{_MARK}'\n${{{{inputs.{names[link.local]}}}}}\n{_MARK}\n")
        parts.append(f"aml_train_link {shlex.quote(f'./{link.local}')}\n")
    if setup:
        parts.append(_SETUP)
    for number, item in enumerate(setup, start=1):
        words = (f"{number} of {len(setup)}", item.command)
        parts.append(f"aml_train_setup {shlex.join(words)}\n")
    return "".join([*parts, _END])


def _input_name(local: str, taken: Mapping[str, Any]) -> str:
    """Return the name of the input for *local*: letters, digits and ``_``."""
    stem = f"data_{re.sub('[^A-Za-z0-9]+', '_', local).strip('_').lower()}".rstrip("_")
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def check_links(links: Sequence[DataLink], code: FileSet) -> None:
    """Check that no file of the code is at a path where data will be linked.

    Raises:
        InvalidError: something does; each such path is named.
    """
    faults: list[Fault] = []
    for link in links:
        parts = link.local.split("/")
        above = {"/".join(parts[:number]) for number in range(1, len(parts))}
        found = next(
            (e.path for e in code.entries if e.path == link.local or e.path.startswith(f"{link.local}/")), None
        )
        blocked = found or next((e.path for e in code.entries if e.path in above), None)
        if blocked is not None:
            remedy = f"write `/{link.local}` into .amlignore" if found else "give the data another path"
            faults.append(
                Fault(
                    where=link.where,
                    what=f"the data cannot be linked to `{link.local}`",
                    why=f"the code has `{blocked}`, which would be in its way",
                    remedy=remedy,
                )
            )
    if faults:
        raise InvalidError(faults)
