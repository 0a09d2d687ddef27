"""A small model of how the runner and act read a step's log: which commands take effect.

After actions/runner ``ActionCommand.cs``, ``ActionCommandManager.cs`` and act ``pkg/runner/command.go``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

COMMANDS = {
    "add-mask", "add-path", "add-matcher", "remove-matcher", "debug", "echo", "endgroup", "error", "group", "notice",
    "internal-set-repo-path", "save-state", "set-env", "set-output", "stop-commands", "warning",
}  # fmt: skip


@dataclass(frozen=True)
class Done:
    name: str
    properties: str
    data: str


@dataclass
class Runner:
    """Reads a log; keeps what took effect and what is shown."""

    done: list[Done] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    token: str | None = None

    def parse(self, line: str) -> Done | None:
        known = COMMANDS | ({self.token.lower()} if self.token else set())
        trimmed = line.lstrip()
        if trimmed.startswith("::") and (end := trimmed.find("::", 2)) >= 0:
            name, _, properties = trimmed[2:end].partition(" ")
            if name.lower() in known:
                return Done(name.lower(), properties, trimmed[end + 2 :])
        if (start := line.find("##[")) >= 0 and (end := line.find("]", start)) >= 0:
            name, _, properties = line[start + 3 : end].partition(" ")
            if name.lower() in known:
                return Done(name.lower(), properties, line[end + 1 :])
        return None

    def read(self, log: str) -> Runner:
        for line in re.split(r"\r\n|\n|\r", log):
            command = self.parse(line)
            if command is None:
                self.shown.append(line)
            elif self.token is not None:
                if command.name == self.token.lower():
                    self.token = None
                else:
                    self.shown.append(line)
            elif command.name == "stop-commands":
                self.token = command.data
            else:
                self.done.append(command)
        return self


def unescape(data: str) -> str:
    for code, sign in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        data = data.replace(code, sign)
    return data
