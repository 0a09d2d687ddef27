"""Jobs of the local AzureML are swept although the engine is still removing some of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from aml_train.local.container import INSTANCE_LABEL, sweep_jobs


class Thing:
    """A container or a network of an engine; *faults* are what the calls of a name raise."""

    def __init__(self, name: str, **faults: Exception) -> None:
        self.name = name
        self.faults = faults
        self.attrs: dict[str, Any] = {"Labels": {INSTANCE_LABEL: "one"}, "NetworkSettings": {"Networks": {"net": {}}}}
        self.calls: list[str] = []

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if what in self.faults:
            raise self.faults[what]

    def reload(self) -> None:
        self._call("reload")

    def remove(self, **_options: object) -> None:
        self._call("remove")

    def wait(self, *, condition: str) -> None:
        self._call(f"wait until {condition}")

    def disconnect(self, _container: object, *, force: bool) -> None:
        assert force
        self._call("disconnect")


def engine(containers: list[Thing], networks: list[Thing], seen: list[dict[str, Any]]) -> Any:
    def listed(**options: Any) -> list[Thing]:
        seen.append(options)
        return containers

    return SimpleNamespace(
        containers=SimpleNamespace(list=listed), networks=SimpleNamespace(list=lambda **_options: networks)
    )


def sweep(client: Any) -> None:
    emulator: Any = Thing("emulator")
    sweep_jobs(client, emulator)


def test_what_is_gone_or_going_is_no_error() -> None:
    busy = APIError("409", explanation="removal of container x is already in progress")
    plain, going, gone = Thing("a"), Thing("b", remove=busy), Thing("c", remove=NotFound("404"))
    networks = [Thing("net"), Thing("net", disconnect=NotFound("404")), Thing("net", remove=NotFound("404"))]
    seen: list[dict[str, Any]] = []
    sweep(engine([plain, going, gone], networks, seen))
    assert (plain.calls, going.calls, gone.calls) == (["remove"], ["remove", "wait until removed"], ["remove"])
    assert [one.calls for one in networks] == [["disconnect", "remove"], ["disconnect"], ["disconnect", "remove"]]
    # docker-py looks at each container once more, and fails where one has gone since it was listed.
    assert [options["ignore_removed"] for options in seen] == [True]


def test_another_fault_of_the_engine_is_told() -> None:
    full = Thing("a", remove=APIError("500", explanation="no space left"))
    with pytest.raises(APIError, match="no space left"):
        sweep(engine([full], [Thing("net")], []))
