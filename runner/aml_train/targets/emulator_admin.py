"""The administration of the local AzureML, asked over HTTP. Light on imports: this is on the way of every run."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final

from aml_train.errors import ServiceError
from aml_train.targets.emulator_settings import EmulatorInfo, EmulatorSettings

_SECONDS: Final = 10.0


def ask(
    settings: EmulatorSettings, path: str, *, method: str = "GET", seconds: float = _SECONDS
) -> tuple[int, dict[str, Any]] | None:
    """Return the status and the JSON object that the local AzureML answers to ``/_emulator/<path>``.

    None where nothing listens, or the connection breaks, as it does while a container starts. Proxies of the
    environment play no part. It is waited for *seconds*.

    Raises:
        ServiceError: the answer is not JSON: something else listens there.
    """
    connection = http.client.HTTPConnection(settings.host, settings.reached_port, timeout=seconds)
    try:
        connection.request(method, f"/_emulator/{path}")
        response = connection.getresponse()
        status, body = response.status, response.read()
    except (OSError, http.client.BadStatusLine, http.client.IncompleteRead):
        return None
    except http.client.HTTPException as error:
        raise _stranger(settings) from error
    finally:
        connection.close()
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise _stranger(settings) from error
    if not isinstance(answer, dict):
        raise _stranger(settings)
    return status, answer


def healthy(settings: EmulatorSettings) -> bool:
    """Tell whether the local AzureML is ready for requests."""
    answer = ask(settings, "health")
    return answer is not None and answer[0] == http.client.OK


def read_info(settings: EmulatorSettings) -> EmulatorInfo | None:
    """Return what the local AzureML says of itself, or None where none answers.

    Raises:
        ServiceError: what answers is no local AzureML of this version.
    """
    answer = ask(settings, "info")
    if answer is None:
        return None
    status, content = answer
    return EmulatorInfo.from_answer(content if status == http.client.OK else {}, settings)


def _stranger(settings: EmulatorSettings) -> ServiceError:
    return ServiceError(
        f"Something else than the local AzureML answers at {settings.host}:{settings.reached_port}.",
        hint="Choose another port: AML_TRAIN_EMULATOR_PORT.",
    )
