"""Verify models by the library under `model_signing`'s command line. Usage: ``model_signing_worker.py FOLDER…``.

Each folder has ``model``, ``model.sig`` and ``signing.pub``. The last line is JSON: for each folder the error, empty for none.

The library imports pyOpenSSL for signatures with certificates, which azureml-core holds back to a version that our other libraries are
past. Keys need none of it: an empty module is enough.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path


def verify(folder: Path) -> str:
    """Return why a folder's model is not verified; empty if it is."""
    from model_signing.hashing import Config as Hashing
    from model_signing.verifying import Config

    # As the command line has it: `model_signing verify key MODEL --signature … --public_key …`.
    hashing = Hashing()  # type: ignore[no-untyped-call]
    hashing.set_ignored_paths(paths=[folder / "model.sig"], ignore_git_paths=True)
    config = Config()  # type: ignore[no-untyped-call]
    config.use_elliptic_key_verifier(public_key=folder / "signing.pub").set_hashing_config(hashing)
    try:
        config.verify(folder / "model", folder / "model.sig")
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    package, crypto = types.ModuleType("OpenSSL"), types.ModuleType("OpenSSL.crypto")
    package.crypto = crypto  # type: ignore[attr-defined]
    sys.modules |= {"OpenSSL": package, "OpenSSL.crypto": crypto}
    print(json.dumps([verify(Path(folder)) for folder in sys.argv[1:]]))
