"""The meaning of a log's path: its origin, and the rank that wrote it. Pure.

The paths are those of AzureML's two runtimes. Source: ``JobLogPattern`` of azure-ai-ml 1.34.1 (``user_logs/std_log.*\\.txt``,
``azureml-logs/[\\d]{2}.+\\.txt``), ``_get_last_log_primary_instance`` of the same (``…_rank_0.txt``, ``…_worker_0.txt``), and
https://learn.microsoft.com/azure/machine-learning/how-to-log-view-metrics#view-and-download-diagnostic-logs: ``user_logs`` is what the
job's processes write, ``system_logs`` what AzureML does around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aml_train.core.text import whole

# user_logs/std_log.txt, std_log_process_03.txt, std_log_worker_1.txt, std_log_0_ps.txt; perhaps in a folder of the node or the retry.
_STD: Final = re.compile(r"user_logs/(?:(?P<folder>.+)/)?std_log(?P<who>[^/]*)\.txt")
# azureml-logs/70_driver_log.txt, 70_driver_log_0.txt, 80_driver_log_rank_1.txt, 70_driver_log_worker_0.txt
_DRIVER: Final = re.compile(r"azureml-logs/(?:(?P<folder>.+)/)?[78]0_driver_log(?P<who>[^/]*)\.txt")
_BUILD: Final = re.compile(r"azureml-logs/20_image_build_log\.txt")
_SYSTEM: Final = ("system_logs/", "azureml-logs/", "logs/azureml/")
_TEXT: Final = (".txt", ".log")
_NUMBERED: Final = re.compile(r"(?:process|rank)?_?(\d{1,9})(_ps)?")


@dataclass(frozen=True, kw_only=True)
class LogName:
    """A log.

    Attributes:
        path: as AzureML names it.
        system: whether AzureML wrote it about its own work.
        rank: which of the job's processes wrote it, such as ``0``, ``worker 1`` or ``10.0.0.5, 3``; empty if the path does not say.
    """

    path: str
    system: bool
    rank: str = ""

    @property
    def order(self) -> tuple[object, ...]:
        """The key that sorts logs: image build first, ranks by number, AzureML's own last."""
        words = tuple(
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.findall(r"\d{1,9}|\D+", self.rank)
        )
        return self.system, not _BUILD.fullmatch(self.path), words, self.path


def log_name(path: str) -> LogName:
    """Return what *path* says."""
    for pattern in (_STD, _DRIVER):
        if match := pattern.fullmatch(path):
            rank = ", ".join(filter(None, (match["folder"], _rank(match["who"].strip("_")))))
            return LogName(path=path, system=False, rank=rank)
    user = path.startswith("user_logs/") or _BUILD.fullmatch(path) is not None
    return LogName(path=path, system=not user)


def _rank(who: str) -> str:
    if match := _NUMBERED.fullmatch(who):
        return f"ps {int(match[1])}" if match[2] else str(int(match[1]))
    return " ".join(word if (number := whole(word)) is None else str(number) for word in who.split("_"))


def chosen(paths: Iterable[str], *, every: bool) -> list[LogName]:
    """Return the logs to follow, in the order in which people read them.

    Args:
        paths: every file that AzureML lists as a log. A job's own files below ``logs/`` are among them, whatever they hold.
        every: AzureML's own logs as well.
    """
    names = [log_name(path) for path in paths]
    wanted = [
        name
        for name in names
        if not name.system or (every and (name.path.startswith(_SYSTEM) or name.path.endswith(_TEXT)))
    ]
    return sorted(wanted, key=lambda name: name.order)
