"""Outside addresses: resolved once, checked, and used as they were checked.

A name says nothing about where it leads: a DNS server can answer with 127.0.0.1, and with something else at each question
(DNS rebinding). The address of the connection counts.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from aml_emulator.network.hosts import inward_reason, is_inward, read_address

Resolve = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host; raises OSError where there are none."""


class InwardError(OSError):
    """A host all of whose addresses are refused; the client gets the message."""


@dataclass(frozen=True, kw_only=True)
class Outward:
    """Decides which addresses of a host may be connected to.

    Attributes:
        own_ports: ports of this process that are refused on every address of this machine.
        resolve: gives a host's addresses.
        is_own: whether an address is one of this machine's.
        is_container: whether an address may be a neighbouring container's, such as another emulator's, which may take this one for its host.
    """

    own_ports: Collection[int] = ()
    resolve: Resolve = lambda host, port: resolve(host, port)
    is_own: Callable[[str], bool] = lambda address: is_own(address)
    is_container: Callable[[str], bool] = lambda _address: False

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses to connect to, in the resolver's order.

        Raises:
            InwardError: every address is refused.
            OSError: the name has no address.
        """
        found = self.resolve(host, port)
        allowed = [one for one in found if not self._refused(one, port)]
        if not allowed:
            shown = host if read_address(host) is not None else f"{host} ({', '.join(found)})"
            raise InwardError(errno.EACCES, inward_reason(shown))
        return allowed

    def _refused(self, text: str, port: int) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if is_inward(address):
            return True
        known = str(getattr(address, "ipv4_mapped", None) or address)
        if port in self.own_ports and self.is_own(known):
            return True
        return self.is_container(known) and not self.is_own(known)


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of *host*, each once; one question to the resolver.

    Raises:
        OSError: there are none, or a resolver does not accept the name.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"'{host}' is not the name of a host") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_own(address: str) -> bool:
    """Return whether *address* belongs to this machine: a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
