"""The payload of the event that a workflow runs for, as GitHub wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import InvalidError

#: A payload is at most 25 MB: https://docs.github.com/webhooks/webhook-events-and-payloads#payload-cap
_LARGEST: Final = 25 * 1024 * 1024


def read_payload(environ: Mapping[str, str]) -> Answer:
    """Return the payload.

    Raises:
        InvalidError: there is none, or it is no JSON.
    """

    def fail(problem: str) -> InvalidError:
        return InvalidError(f"The payload of GitHub's event {problem}.")

    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise InvalidError("This command runs for an event of GitHub: GITHUB_EVENT_PATH is not set.")
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        return Answer(decode(content), fail)
    except OSError as error:
        raise InvalidError(f"The payload of GitHub's event cannot be read: {error.strerror}.") from error
    except UndecodableError as error:
        raise fail(str(error)) from error
