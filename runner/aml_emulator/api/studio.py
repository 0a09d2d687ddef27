"""The studio's addresses, which clients print for people: they lead to the page of the local AzureML."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError

HOST = "ml.azure.com"


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of the studio; a browser carries no token."""

    def run(call: Call) -> Reply:
        if call.host != HOST:
            raise NotSupportedError(f"{call.method} https://{call.host}{call.path}")
        page = f"{context.page_address}/ui/runs/{quote(call.params['run'], safe='')}"
        return Reply(status=302, headers={"Location": page})

    return (Route(method="GET", path="/runs/{run}", handler=run, open=True),)
