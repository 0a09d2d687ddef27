"""The price of a recording: bounds by Azure's public price list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import requests

from aml_train.core.http_client import Session, exchange

PRICES: Final = "https://prices.azure.com/api/retail/prices"
"""https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices. It needs no sign-in."""

MOST_MINUTES: Final = 30.0
"""Of a node, for both jobs: each has a time-out of 15 minutes. Starting and stopping a node counts as well."""
USUAL_MINUTES: Final = 10.0
_SECONDS: Final = (3.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of an hour of a node; None if the list does not answer."""

    size: str
    hour: float | None
    currency: str = "USD"

    def text(self) -> str:
        """Return what the recording may cost."""
        node = f"about {USUAL_MINUTES:.0f} minutes, at most {MOST_MINUTES:.0f}, of one node ({self.size})"
        if self.hour is None:
            return f"{node}; Azure's price list does not answer: https://azure.microsoft.com/pricing/details/machine-learning"
        usual, most = (self.hour * minutes / 60 for minutes in (USUAL_MINUTES, MOST_MINUTES))
        return f"{node}: about {usual:.2f} {self.currency}, at most {most:.2f} ({self.hour:.3f} an hour by Azure's price list)"


def find_price(size: str, location: str, *, session: requests.Session | None = None) -> Price:
    """Return the list price of a size in a region; unknown without an answer."""
    wanted = (
        f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '{location.lower()}'"
        f" and armSkuName eq '{size}'"
    )
    try:
        answer = exchange(session or Session(), "GET", PRICES, params={"$filter": wanted}, timeout=_SECONDS)
        items = answer.json().get("Items") if answer.ok else None
    except (requests.RequestException, ValueError, AttributeError):
        items = None
    return cheapest(size, items)


def cheapest(size: str, items: Any) -> Price:
    """Return the price of an hour on Linux, without spot prices."""
    prices = [
        (float(one["retailPrice"]), str(one.get("currencyCode") or "USD"))
        for one in items or []
        if isinstance(one, dict)
        and isinstance(one.get("retailPrice"), int | float)
        and one.get("unitOfMeasure") == "1 Hour"
        and "windows" not in str(one.get("productName")).lower()
        and not any(word in str(one.get("skuName")).lower() for word in ("spot", "low priority"))
    ]
    if not prices:
        return Price(size=size, hour=None)
    hour, currency = min(prices)
    return Price(size=size, hour=hour, currency=currency)
