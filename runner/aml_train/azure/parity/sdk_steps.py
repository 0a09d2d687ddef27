"""Steps of azure-ai-ml: its calls, and the requests that it sends for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aml_train.azure.clouds import Cloud
from aml_train.azure.http import WorkspaceId
from aml_train.azure.parity.conversation import Raw
from aml_train.azure.sdk import quiet
from aml_train.azure.sign_in import SignIn
from aml_train.core.clock import Clock

if TYPE_CHECKING:
    from azure.ai.ml import MLClient

_SECONDS: Final = 60.0

CALLS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "workspace": lambda client, _id: client.workspaces.get(client.workspace_name),
    "datastores": lambda client, _id: list(client.datastores.list()),
    "computes": lambda client, _id: list(client.compute.list()),
    "environment": lambda client, id_: client.environments.get(f"{id_}-env", version="1"),
    "data": lambda client, id_: client.data.get(f"{id_}-data", version="1"),
    "model": lambda client, id_: client.models.get(f"{id_}-model", version="1"),
    "component": lambda client, id_: client.components.get(f"{id_}-component", version="1"),
    "job": lambda client, id_: client.jobs.get(f"{id_}-job"),
    "job_unknown": lambda client, id_: client.jobs.get(f"{id_}-none"),
}
"""The calls that a script may name, each a function of the client and of the recording's id."""


@dataclass(frozen=True, kw_only=True)
class Called:
    """A call of azure-ai-ml. *outcome* is ``ok``, or the class of what it raised."""

    outcome: str
    raws: tuple[Raw, ...]


class SdkCalls:
    """Calls azure-ai-ml, and keeps each answer that it receives.

    Args:
        options: of azure-core's pipeline, such as ``proxies``.
    """

    def __init__(
        self, workspace: WorkspaceId, sign_in: SignIn, cloud: Cloud, options: Mapping[str, Any], clock: Clock
    ) -> None:
        self._clock = clock
        self._raws: list[Raw] = []
        self._step = ""
        self._began = 0.0
        self._client = self._make(workspace, sign_in, cloud, options)

    def _make(self, workspace: WorkspaceId, sign_in: SignIn, cloud: Cloud, options: Mapping[str, Any]) -> MLClient:
        from azure.ai.ml import MLClient

        return MLClient(
            sign_in,
            workspace.subscription_id,
            workspace.resource_group,
            workspace.name,
            show_progress=False,
            cloud=cloud.name,
            connection_timeout=_SECONDS,
            read_timeout=_SECONDS,
            raw_request_hook=self._before,
            raw_response_hook=self._after,
            **options,
        )

    def call(self, step: str, name: str, id_: str) -> Called:
        """Call a function of :data:`CALLS`; whatever it raises is its outcome."""
        self._step, self._raws = step, []
        outcome = "ok"
        try:
            with quiet():
                CALLS[name](self._client, id_)
        except Exception as error:  # noqa: BLE001 - azure-ai-ml raises of any class; the class is what is recorded
            outcome = type(error).__name__
        return Called(outcome=outcome, raws=tuple(self._raws))

    def _before(self, _request: Any) -> None:
        self._began = self._clock.now()

    def _after(self, response: Any) -> None:
        answer = response.http_response
        request = response.http_request
        self._raws.append(
            Raw(
                step=self._step,
                method=str(request.method),
                url=str(request.url),
                status=int(answer.status_code),
                headers={str(name): str(value) for name, value in answer.headers.items()},
                content=bytes(answer.body()),
                seconds=self._clock.now() - self._began,
                call=self._step,
            )
        )
