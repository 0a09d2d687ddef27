"""Child processes: Azurite, the registry, and their supervision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_emulator.lazy import lazily

if TYPE_CHECKING:
    from aml_emulator.processes.backing import Backing as Backing
    from aml_emulator.processes.backing import start_children as start_children
    from aml_emulator.processes.children import Child as Child
    from aml_emulator.processes.children import ChildError as ChildError
    from aml_emulator.processes.host import StartError as StartError
    from aml_emulator.processes.host import hold as hold
    from aml_emulator.processes.host import listen as listen
    from aml_emulator.processes.host import lock_file as lock_file
    from aml_emulator.processes.host import own_container as own_container
    from aml_emulator.processes.host import own_version as own_version
    from aml_emulator.processes.host import reserved_port as reserved_port
    from aml_emulator.processes.host import system_authorities as system_authorities

_MODULES = {
    "Backing": "backing",
    "start_children": "backing",
    "Child": "children",
    "ChildError": "children",
    "StartError": "host",
    "hold": "host",
    "listen": "host",
    "lock_file": "host",
    "own_container": "host",
    "own_version": "host",
    "reserved_port": "host",
    "system_authorities": "host",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
