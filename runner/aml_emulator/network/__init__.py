"""Proxy, certificates, TLS fronts and injected faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_emulator.lazy import lazily

if TYPE_CHECKING:
    from aml_emulator.network.certificates import Certificates as Certificates
    from aml_emulator.network.certificates import prepare_certificates as prepare_certificates
    from aml_emulator.network.connections import Connections as Connections
    from aml_emulator.network.connections import address_of as address_of
    from aml_emulator.network.fault_injection import FaultFront as FaultFront
    from aml_emulator.network.fault_injection import Faults as Faults
    from aml_emulator.network.fault_injection import Rule as Rule
    from aml_emulator.network.fault_injection import linger as linger
    from aml_emulator.network.heads import NO_HEAD as NO_HEAD
    from aml_emulator.network.heads import BadHeadError as BadHeadError
    from aml_emulator.network.heads import Head as Head
    from aml_emulator.network.heads import is_foreign as is_foreign
    from aml_emulator.network.heads import parse_head as parse_head
    from aml_emulator.network.heads import read_target as read_target
    from aml_emulator.network.heads import split_target as split_target
    from aml_emulator.network.hosts import LOGIN_HOSTS as LOGIN_HOSTS
    from aml_emulator.network.hosts import REGISTRY_SUFFIX as REGISTRY_SUFFIX
    from aml_emulator.network.hosts import SERVICE_SUFFIX as SERVICE_SUFFIX
    from aml_emulator.network.hosts import Destination as Destination
    from aml_emulator.network.hosts import decide as decide
    from aml_emulator.network.hosts import is_public_storage as is_public_storage
    from aml_emulator.network.hosts import names_for_jobs as names_for_jobs
    from aml_emulator.network.neighbours import Clients as Clients
    from aml_emulator.network.neighbours import Neighbours as Neighbours
    from aml_emulator.network.outward import InwardError as InwardError
    from aml_emulator.network.outward import Outward as Outward
    from aml_emulator.network.proxy import PAGE_PATH as PAGE_PATH
    from aml_emulator.network.proxy import TLS_PORT as TLS_PORT
    from aml_emulator.network.proxy import Proxy as Proxy
    from aml_emulator.network.proxy import acknowledge as acknowledge
    from aml_emulator.network.proxy import join_streams as join_streams
    from aml_emulator.network.proxy import refuse as refuse
    from aml_emulator.network.requests_log import KEPT_REQUESTS as KEPT_REQUESTS
    from aml_emulator.network.requests_log import Recorder as Recorder
    from aml_emulator.network.requests_log import RequestLog as RequestLog
    from aml_emulator.network.upstream import MAX_HEAD_BYTES as MAX_HEAD_BYTES
    from aml_emulator.network.upstream import Streams as Streams
    from aml_emulator.network.upstream import Upstream as Upstream
    from aml_emulator.network.upstream import connect as connect

_MODULES = {
    "Connections": "connections",
    "address_of": "connections",
    "refuse": "proxy",
    "is_foreign": "heads",
    "Clients": "neighbours",
    "Neighbours": "neighbours",
    "Certificates": "certificates",
    "prepare_certificates": "certificates",
    "FaultFront": "fault_injection",
    "Faults": "fault_injection",
    "Rule": "fault_injection",
    "linger": "fault_injection",
    "LOGIN_HOSTS": "hosts",
    "REGISTRY_SUFFIX": "hosts",
    "SERVICE_SUFFIX": "hosts",
    "Destination": "hosts",
    "decide": "hosts",
    "is_public_storage": "hosts",
    "names_for_jobs": "hosts",
    "InwardError": "outward",
    "Outward": "outward",
    "NO_HEAD": "heads",
    "PAGE_PATH": "proxy",
    "TLS_PORT": "proxy",
    "BadHeadError": "heads",
    "Head": "heads",
    "Proxy": "proxy",
    "acknowledge": "proxy",
    "join_streams": "proxy",
    "parse_head": "heads",
    "read_target": "heads",
    "split_target": "heads",
    "KEPT_REQUESTS": "requests_log",
    "Recorder": "requests_log",
    "RequestLog": "requests_log",
    "MAX_HEAD_BYTES": "upstream",
    "Streams": "upstream",
    "Upstream": "upstream",
    "connect": "upstream",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
