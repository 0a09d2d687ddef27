"""The container registry and ACR's interfaces in front of it."""

from __future__ import annotations

from aml_emulator.registry.acr import AcrInterface as AcrInterface
from aml_emulator.registry.acr import Locks as Locks
from aml_emulator.registry.front import RegistryFront as RegistryFront
from aml_emulator.registry.storage import RegistryStorage as RegistryStorage
