"""How HTTP gets to a target: as the process's environment says, or past it by a proxy and a CA bundle of the target's own.

Two targets in one process may need two ways, as two local AzureMLs do: the environment can hold only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import requests


@dataclass(frozen=True, kw_only=True)
class HttpWay:
    """A way to a target.

    Attributes:
        proxy: the address of the proxy; None leaves it to the environment.
        ca_bundle: path of the PEM file that certificates are checked with, with *proxy*.
    """

    proxy: str | None = None
    ca_bundle: str | None = None

    def session(self) -> requests.Session:
        """Return a session that takes this way."""
        from aml_train.core.http_client import new_session

        session = new_session()
        if self.proxy is not None:
            session.trust_env = False
            session.proxies = {"https": self.proxy, "http": self.proxy}
            session.verify = self.ca_bundle or True
        return session

    def azure_options(self) -> dict[str, Any]:
        """Return the same as options of a client of azure-core (``ProxyPolicy``, ``ConnectionConfiguration``)."""
        if self.proxy is None:
            return {}
        return {
            "proxies": {"https": self.proxy, "http": self.proxy},
            "connection_verify": self.ca_bundle or True,
            "use_env_settings": False,
        }
