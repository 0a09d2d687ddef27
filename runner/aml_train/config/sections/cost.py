"""The grammar of ``cost:``."""

from __future__ import annotations

from typing import Final

from aml_train.config.yaml.shapes import Number, Text
from aml_train.config.yaml.structures import Either, Key, Record, Table

_MOST: Final = 1e9
_PRICE: Final = Number(noun="a price for an hour of a node", whole=False, minimum=0, maximum=_MOST)
_BOUND: Final = Number(noun="a number", whole=False, minimum=0.001, maximum=_MOST)

COST: Final = Record(
    noun="a mapping",
    keys={
        "currency": Key(
            Text(noun="a currency's three letters, such as `EUR`", pattern=r"[A-Z]{3}"),
            "Currency of the prices, for the report; `USD` by default.",
        ),
        "prices": Key(
            Table(
                noun="a mapping of VM sizes",
                key=Text(
                    noun="a VM size, such as `Standard_NC24ads_A100_v4`", pattern=r"[Ss]tandard_[A-Za-z0-9_-]{1,60}"
                ),
                value=Either(
                    noun="a price, or a mapping with `dedicated` and `low-priority`",
                    scalar=_PRICE,
                    keys=Record(
                        noun="a mapping with `dedicated` and `low-priority`",
                        hints={"spot": "write `low-priority`"},
                        keys={
                            "dedicated": Key(_PRICE, "Price of a dedicated node for an hour."),
                            "low-priority": Key(_PRICE, "Price of a node of low priority (Spot) for an hour."),
                        },
                    ),
                ),
            ),
            "What a node costs for an hour, by VM size; a single price is that of dedicated nodes.",
        ),
        "max-node-hours": Key(
            _BOUND, "Node hours after which the job is cancelled, over all its attempts; no bound by default."
        ),
        "max-cost": Key(_BOUND, "Cost after which the job is cancelled, over all its attempts; no bound by default."),
    },
)
