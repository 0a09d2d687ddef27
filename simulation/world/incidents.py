"""Incidents at a write of a client: an interruption, an outage, a delay.

Faults of the scheduler happen to requests one by one. These happen at one moment, and to everything: few seeds would draw them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: About as many writes has a run of this world at each service, sign-ins included.
_WRITES: Final = {"azureml": 12, "storage": 4, "registry": 45}


@dataclass(kw_only=True)
class Incident:
    """An incident when a client's write arrives at a service.

    Attributes:
        client: the name of the client.
        service: azureml, storage or registry.
        write: the number of its write there, from 1.
        delay: seconds by which the write is late.
        interrupted: whether the client is interrupted then.
        outage: seconds for which every service refuses, from that write on.
        done: whether the service does what the write asks, before it refuses.
    """

    client: str
    service: str
    write: int
    delay: float = 0.0
    interrupted: bool = False
    outage: float = 0.0
    done: bool = False
    _seen: int = field(default=0, init=False)

    def __str__(self) -> str:
        parts = [
            f"the write {self.write} of {self.client} at {self.service}",
            f"is {self.delay} s late" if self.delay else "",
            "interrupts it" if self.interrupted else "",
            f"begins an outage of {self.outage} s {'after' if self.done else 'before'} it" if self.outage else "",
        ]
        return ", ".join(part for part in parts if part)

    def hits(self, sender: str, service: str, method: str) -> bool:
        """Count a request that has arrived; return whether it is the one.

        Args:
            sender: the thread that sent it, such as ``client-1/MainThread``, or ``client-1#2/MainThread`` after a restart.
            service: which has got it.
            method: in capitals.
        """
        client = sender.partition("/")[0].partition("#")[0]
        if method in _READS or (client, service) != (self.client, self.service):
            return False
        self._seen += 1
        return self._seen == self.write


def drawn_outage(source: random.Random, client: str) -> Incident:
    """Return an outage of up to two hours at some write of *client*."""
    return _drawn(source, client, outage=seconds_up_to(source, 7200.0))


def drawn_interruption(source: random.Random, client: str) -> Incident:
    """Return an interruption at some write of *client*.

    The write is late, or the services refuse for a while.
    """
    if source.random() < 0.5:
        return _drawn(source, client, interrupted=True, delay=seconds_up_to(source, 60.0))
    return _drawn(source, client, interrupted=True, outage=seconds_up_to(source, 600.0))


def _drawn(
    source: random.Random, client: str, *, interrupted: bool = False, delay: float = 0.0, outage: float = 0.0
) -> Incident:
    # Most of what is paid for, and kept, is decided at AzureML.
    service = source.choice(("azureml", "azureml", "storage", "registry"))
    return Incident(
        client=client,
        service=service,
        write=source.randint(1, _WRITES[service]),
        interrupted=interrupted,
        delay=delay,
        outage=outage,
        done=source.random() < 0.5,
    )


def seconds_up_to(source: random.Random, most: float) -> float:
    """Return one to *most* seconds, spread evenly over orders of magnitude."""
    return float(round(most ** source.random(), 1))
