"""Requests to the local AzureML's administration, over plain HTTP.

Light on imports: every run needs them.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aml_train.core.answers import MOST_BYTES, UndecodableError, decode
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.version import PRODUCT
from aml_train.local.settings import EmulatorInfo, EmulatorSettings

_SECONDS: Final = 60.0


def request_admin(
    settings: EmulatorSettings, path: str, *, method: str = "GET", seconds: float = _SECONDS
) -> tuple[int, dict[str, Any]] | None:
    """Return the status and JSON object that answer ``/_emulator/<path>``.

    None where nothing listens, or the connection breaks, as it does while a container starts. Proxies of the
    environment play no part. It is waited for *seconds*.

    Raises:
        ServiceError: the answer is not JSON: something else listens there.
    """
    return _ask_at(settings.host, settings.reached_port, path, method=method, seconds=seconds)


def _ask_at(
    host: str, port: int, path: str, *, method: str = "GET", seconds: float = _SECONDS
) -> tuple[int, dict[str, Any]] | None:
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        # The name that it answers under, whatever leads there.
        connection.request(method, f"/_emulator/{path}", headers={"User-Agent": PRODUCT, "Host": "localhost"})
        response = connection.getresponse()
        status, body = response.status, response.read(MOST_BYTES + 1)
    except (OSError, http.client.BadStatusLine, http.client.IncompleteRead):
        return None
    except http.client.HTTPException as error:
        raise _stranger(host, port) from error
    finally:
        connection.close()
    try:
        answer = decode(body)
    except UndecodableError as error:
        raise _stranger(host, port) from error
    if not isinstance(answer, dict):
        raise _stranger(host, port)
    return status, answer


def read_problems(settings: EmulatorSettings) -> list[str]:
    """Return why the local AzureML is not ready for requests; nothing if it is."""
    answer = request_admin(settings, "health")
    if answer is None:
        return ["it does not answer"]
    if answer[0] == http.client.OK:
        return []
    missing = answer[1].get("missing")
    return [str(one) for one in missing] if isinstance(missing, list) else [f"its health is {answer[0]}"]


def emulator_info(settings: EmulatorSettings) -> EmulatorInfo | None:
    """Return what the local AzureML says of itself, or None where none answers.

    Raises:
        InvalidError: it has no such workspace.
        ServiceError: what answers is no local AzureML of this version.
    """
    answer = request_admin(settings, settings.path_of("info"))
    if answer is None:
        return None
    status, content = answer
    if status == http.client.NOT_FOUND and settings.workspace:
        raise InvalidError(
            f"{settings.name} has no workspace {settings.workspace!r}.",
            hint=f"Create it: aml-train emulator workspace create {settings.workspace}.",
        )
    return EmulatorInfo.from_answer(content if status == http.client.OK else {}, settings)


def register_environments(info: EmulatorInfo, images: Mapping[str, str]) -> None:
    """Use local images as curated environments; the first of *images* wins.

    Args:
        info: the local AzureML, as it is reached from here.
        images: images by pattern of ``NAME`` or ``NAME:VERSION``.

    Raises:
        ServiceError: it does not answer, or refuses.
    """
    for pattern, image in reversed(tuple(images.items())):
        path = f"environments?{urlencode({'pattern': pattern, 'image': image})}"
        answer = _ask_at(info.host, info.port, path, method="POST")
        if answer is None or answer[0] != http.client.OK:
            why = "it does not answer" if answer is None else answer[1].get("error", answer[0])
            raise ServiceError(f"The local AzureML does not take the image of {pattern}: {why}.")


def _stranger(host: str, port: int) -> ServiceError:
    return ServiceError(
        f"Something else than the local AzureML answers at {host}:{port}.",
        hint="Choose another port: AML_TRAIN_EMULATOR_PORT.",
    )
