from __future__ import annotations

from dataclasses import replace

import pytest

from aml_train.local.settings import EmulatorSettings

PUBLISHED = EmulatorSettings(port=7480, registry_port=7481)


@pytest.mark.parametrize(
    ("settings", "port", "registry"),
    [
        (PUBLISHED, 7480, "127.0.0.1:7481"),
        (replace(PUBLISHED, host="10.0.0.5"), 7480, "10.0.0.5:7481"),
        (replace(PUBLISHED, host="172.17.0.2", inside=True), 7380, "172.17.0.2:7381"),
    ],
)
def test_where_it_is_found(settings: EmulatorSettings, port: int, registry: str) -> None:
    assert settings.reached_port == port
    assert settings.registry_address == registry
    assert settings.registry_engine_name == "localhost:7481", "the engine's name of the registry never changes"


def test_how_it_is_reached_is_no_setting_of_the_environment() -> None:
    assert not EmulatorSettings.from_environment({"AML_TRAIN_EMULATOR_INSIDE": "1"}).inside
