from __future__ import annotations

import pytest

from aml_emulator.network.heads import Head, is_foreign
from aml_emulator.network.hosts import Destination, decide
from aml_emulator.network.upstream import ProxyAddress, bypasses, parse_proxy


@pytest.mark.parametrize(
    ("host", "destination"),
    [
        ("management.azure.com", Destination.SERVICE),
        ("MANAGEMENT.azure.com.", Destination.SERVICE),
        ("login.microsoftonline.com", Destination.SERVICE),
        ("eastus.api.azureml.ms", Destination.SERVICE),
        ("westeurope.api.azureml.ms", Destination.SERVICE),
        ("amllocalstore.blob.core.windows.net", Destination.BLOB),
        ("amllocal.azurecr.io", Destination.REGISTRY),
        ("other.blob.core.windows.net", Destination.REFUSED),
        ("mcr.microsoft.com", Destination.REFUSED),
        ("other.azurecr.io", Destination.REFUSED),
        ("dc.services.visualstudio.com", Destination.REFUSED),
        ("azure.com", Destination.REFUSED),
        ("169.254.169.254", Destination.REFUSED),
        ("localhost", Destination.REFUSED),
        ("x.localhost", Destination.REFUSED),
        ("127.0.0.1", Destination.REFUSED),
        ("[::1]", Destination.REFUSED),
        ("0.0.0.0", Destination.REFUSED),  # noqa: S104
        ("pypi.org", Destination.ONWARD),
        ("notazure.com", Destination.ONWARD),
        ("management.azure.com.evil.example", Destination.ONWARD),
        ("10.1.2.3", Destination.ONWARD),
    ],
)
def test_every_host_has_one_destination(host: str, destination: Destination) -> None:
    decision = decide(host, blob_host="amllocalstore.blob.core.windows.net", login_server="amllocal.azurecr.io")
    assert decision.destination is destination
    assert bool(decision.reason) == (destination is Destination.REFUSED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        ("http://proxy:3128", ProxyAddress(host="proxy", port=3128)),
        ("proxy:3128/", ProxyAddress(host="proxy", port=3128)),
        ("http://u:p%40@proxy", ProxyAddress(host="proxy", port=80, authorization="Basic dTpwQA==")),
    ],
)
def test_a_proxy_variable_is_read(text: str | None, expected: ProxyAddress | None) -> None:
    assert parse_proxy(text) == expected


@pytest.mark.parametrize(
    ("host", "no_proxy", "expected"),
    [
        ("pypi.org", "", False),
        ("pypi.org", "*", True),
        ("pypi.org", "example.com, pypi.org", True),
        ("files.pypi.org", ".pypi.org", True),
        ("files.pypi.org", "*.pypi.org", True),
        ("notpypi.org", "pypi.org", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("name", "10.0.0.0/8", False),
    ],
)
def test_no_proxy_names_hosts_domains_and_networks(host: str, no_proxy: str, expected: bool) -> None:
    assert bypasses(host, no_proxy) is expected


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({"Host": "127.0.0.1:7380"}, False),
        ({"host": "[::1]:7380"}, False),
        ({"Host": "LOCALHOST:7380"}, False),
        ({"Host": "172.18.0.2:7381"}, False),
        ({"Host": "172.18.0.3:7381"}, True),
        ({"Host": "aml-emulator:7380"}, True),
        ({"Host": "0x7f.1"}, True),
        ({}, True),
        ({"Host": "rebound.example.com:7380"}, True),
        ({"Host": "x.localhost:7380"}, True),
        ({"Host": "localhost:7380", "Origin": "https://example.com"}, True),
        ({"Host": "localhost:7380", "Origin": "http://localhost:7380"}, True),
        ({"Host": "localhost:7380", "Sec-Fetch-Site": "cross-site"}, True),
    ],
)
def test_no_web_page_uses_the_admin_interface_or_the_registry(headers: dict[str, str], foreign: bool) -> None:
    head = Head(method="POST", target="/_emulator/reset", headers=tuple(headers.items()))
    assert is_foreign(head, names=("172.18.0.2",)) is foreign
