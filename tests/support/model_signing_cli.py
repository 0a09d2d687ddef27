"""The command line of `model_signing`, unmodified.

It imports pyOpenSSL for signatures with certificates, which azureml-core holds back to a version that our other libraries are past. Keys
need none of it: an empty module is enough.
"""

from __future__ import annotations

import runpy
import sys
import types

if __name__ == "__main__":
    package, crypto = types.ModuleType("OpenSSL"), types.ModuleType("OpenSSL.crypto")
    package.crypto = crypto  # type: ignore[attr-defined]
    sys.modules |= {"OpenSSL": package, "OpenSSL.crypto": crypto}
    runpy.run_module("model_signing", run_name="__main__", alter_sys=True)
