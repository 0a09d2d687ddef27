"""Which addresses the proxy connects to, by what they are and not by how they are written: without a network."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

import pytest
import requests

from aml_emulator.executor import fetch
from aml_emulator.executor.archive import ContentError
from aml_emulator.executor.spec import InputSpec
from aml_emulator.network.hosts import Destination, InwardError, Outward, decide, is_inward, read_address, resolve
from aml_emulator.network.upstream import Streams, Upstream

INWARD = (
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1"),  # noqa: S104
    *("::1", "::", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "2002:7f00:1::", "2001:0:7f00:1::"),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:168.63.129.16", "64:ff9b::100.100.100.200", "2002:c000:c0::"),
)
OUTWARD = (
    "10.1.2.3",
    "192.168.1.1",
    "172.17.0.1",
    "93.184.216.34",
    "2606:2800:220:1::1",
    "fd00::1",
    "::ffff:10.1.2.3",
)
SPELLINGS = (
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "0",
    "[::ffff:127.0.0.1]",
)


@pytest.mark.parametrize("text", INWARD)
def test_addresses_of_this_machine_are_inward_in_every_disguise(text: str) -> None:
    assert is_inward(ipaddress.ip_address(text))
    outward = Outward(resolve=lambda _host, _port: [text], is_own=lambda _address: False)
    with pytest.raises(InwardError, match=r"name \(.*\) is this machine itself, .*; put it into NO_PROXY"):
        outward.addresses("name", 443)


@pytest.mark.parametrize("text", OUTWARD)
def test_private_and_public_addresses_are_not(text: str) -> None:
    assert not is_inward(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_number_is_the_address_that_resolvers_make_of_it(text: str) -> None:
    """Also where a proxy upstream would be given the text."""
    address = read_address(text)
    assert address is not None
    assert is_inward(address)
    decision = decide(text, blob_host="blob", login_server="registry")
    assert decision.destination is Destination.REFUSED
    # The C library reads them alike, without a question to any server.
    found = [ipaddress.ip_address(one) for one in resolve(text.strip("[]"), 443)]
    assert found == [address]


def test_of_several_addresses_those_of_this_machine_are_left_out() -> None:
    outward = Outward(resolve=lambda _host, _port: ["127.0.0.1", "10.1.2.3", "::1", "10.1.2.4"])
    assert outward.addresses("index.internal", 8000) == ["10.1.2.3", "10.1.2.4"]


@pytest.mark.parametrize(
    ("address", "port", "refused"),
    [
        ("172.17.0.2", 7380, True),
        ("172.17.0.2", 7381, True),
        ("::ffff:172.17.0.2", 7380, True),
        ("172.17.0.2", 8080, False),
        ("172.17.0.9", 9, True),
        ("::ffff:172.17.0.9", 9, True),
        ("10.0.0.9", 7380, False),
    ],
)
def test_own_ports_and_all_containers_are_refused(address: str, port: int, refused: bool) -> None:
    outward = Outward(
        own_ports={7380, 7381},
        resolve=lambda _host, _port: [address],
        is_own=lambda one: one == "172.17.0.2",
        is_container=lambda one: one.startswith("172.17."),
    )
    if refused:
        with pytest.raises(InwardError):
            outward.addresses("bridge", port)
    else:
        assert outward.addresses("bridge", port) == [address]


class Dialled:
    """Remembers what is connected to; connects to nothing but *reached*."""

    def __init__(self, *reached: str) -> None:
        self.reached = reached
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Streams:
        self.asked.append((host, port))
        if host not in self.reached:
            raise ConnectionRefusedError(host)
        reader = asyncio.StreamReader()
        reader.feed_data(b"HTTP/1.1 200 OK\r\n\r\n")
        return reader, _Writer()  # type: ignore[return-value]


class _Writer:
    def write(self, data: bytes) -> None:
        self.data = data


def test_a_name_is_resolved_once_and_its_address_is_connected_to() -> None:
    """A server that answers again with another address gains nothing."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    dialled = Dialled("93.184.216.34")
    upstream = Upstream({}, outward=Outward(resolve=lambda _host, _port: next(answers)), dial=dialled)
    asyncio.run(upstream.tunnel("rebound.example", 443))
    assert dialled.asked == [("93.184.216.34", 443)]
    for way in (upstream.tunnel, upstream.plain):
        answers = iter([["127.0.0.1"]])
        with pytest.raises(InwardError):
            asyncio.run(way("rebound.example", 443))
    assert len(dialled.asked) == 1


def test_names_go_on_to_a_proxy_upstream_unresolved() -> None:
    def refuse(_host: str, _port: int) -> Sequence[str]:
        raise AssertionError("asked a resolver")

    dialled = Dialled("127.0.0.1")
    environment = {"https_proxy": "http://127.0.0.1:3128", "http_proxy": "http://127.0.0.1:3128", "no_proxy": "near"}
    upstream = Upstream(environment, outward=Outward(resolve=refuse), dial=dialled)
    asyncio.run(upstream.tunnel("only.the.proxy.knows", 443))
    asyncio.run(upstream.plain("only.the.proxy.knows", 80))
    assert dialled.asked == [("127.0.0.1", 3128)] * 2
    with pytest.raises(AssertionError, match="asked a resolver"):
        asyncio.run(upstream.plain("near", 80))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_inputs_from_the_web_are_fetched_by_the_same_rule(scheme: str) -> None:
    asked: list[str] = []

    def inwards(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    item = InputSpec(name="d", kind="uri_file", url=f"{scheme}://rebound.example/x?sig=secret")
    session = fetch.guarded(Outward(resolve=inwards))

    def straight() -> requests.Session:
        made = session()
        made.trust_env = False
        return made

    fetching = fetch.fetched((item,), lambda: None, session=straight)
    with pytest.raises(ContentError, match=r"rebound.example \(127.0.0.1\) is this machine itself") as caught:
        fetching.__enter__()
    assert asked == ["rebound.example"]
    assert "secret" not in str(caught.value)
