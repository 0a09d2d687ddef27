"""The version, and the user agent of all our HTTP clients.

A leaf, since it is needed before requests.
"""

from __future__ import annotations

from typing import Final

__version__ = "0.1.0"

#: Product and version (RFC 9110, 10.1.5). azure-core puts it before its own
#: (https://azure.github.io/azure-sdk/general_azurecore.html#telemetry-policy, at most 24 characters).
PRODUCT: Final = f"aml-train/{__version__}"
