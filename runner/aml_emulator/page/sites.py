"""The pages of all workspaces: a browser names one by the host, NAME.localhost."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool

from aml_emulator.api.directory import Directory
from aml_emulator.api.errors import ServiceError
from aml_emulator.network.heads import Head
from aml_emulator.page.site import Site

BELOW = ".localhost"


class Sites:
    """Answers browsers. Each workspace's page has the addresses of the first one's.

    Args:
        directory: finds workspaces by name.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._sites: dict[str, Site] = {}

    async def serve(self, head: Head, writer: asyncio.StreamWriter) -> None:
        """Answer one request on its connection, which is closed afterwards."""
        name = workspace_of(head)
        try:
            found = None if name is None else await run_in_threadpool(self._directory.find, name)
        except ServiceError as error:
            await Site(self._directory.first.context).refuse(head, writer, error.status, error.message)
            return
        workspace = found or self._directory.first
        key = workspace.context.identity.workspace_id
        known = {identity.workspace_id for identity in self._directory.all()}
        self._sites = {one: site for one, site in self._sites.items() if one in known}
        if key not in self._sites:
            host = None if found is None or found is self._directory.first else f"{name}{BELOW}"
            self._sites[key] = Site(workspace.context, host=host)
        await self._sites[key].serve(head, writer)


def workspace_of(head: Head) -> str | None:
    """Return the workspace's name in lower case in the host, None if there is none."""
    name = head.host
    return name.removesuffix(BELOW) if name.endswith(BELOW) and "." not in name.removesuffix(BELOW) else None
