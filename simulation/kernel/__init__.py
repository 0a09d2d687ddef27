"""The kernel: one seeded scheduler, virtual time, simulated processes and network."""

from simulation.kernel.decisions import Decisions, Plan
from simulation.kernel.entities import Limits, Moment, Process
from simulation.kernel.errors import SimulationError, Violation, WouldWaitError
from simulation.kernel.faults import Profile
from simulation.kernel.install import installed, prepare
from simulation.kernel.messages import Handler, Request, Response
from simulation.kernel.network import Network
from simulation.kernel.scheduler import Kernel
from simulation.kernel.state import Slot

__all__ = [
    "Decisions",
    "Handler",
    "Kernel",
    "Limits",
    "Moment",
    "Network",
    "Plan",
    "Process",
    "Profile",
    "Request",
    "Response",
    "SimulationError",
    "Slot",
    "Violation",
    "WouldWaitError",
    "installed",
    "prepare",
]
