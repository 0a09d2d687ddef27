"""What programs do that sign a person in. Run as a program: a step's name and its arguments as JSON.

Knows nothing of the emulator: everything it needs is in the environment and its arguments.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def of_azure_identity(given: dict[str, str]) -> dict[str, Any]:
    """Read a compute target with azure-ai-ml, as tutorials begin."""
    from azure.ai.ml import MLClient
    from azure.identity import DeviceCodeCredential, InteractiveBrowserCredential

    credential: Any = (InteractiveBrowserCredential if given["way"] == "browser" else DeviceCodeCredential)()
    client = MLClient(credential, given["subscription"], given["group"], given["workspace"])
    record = credential.authenticate(scopes=["https://management.azure.com/.default"])
    return {"compute": client.compute.get(given["compute"]).name, "username": record.username}


def of_azureml_core(given: dict[str, str]) -> dict[str, Any]:
    """Read the workspace of config.json, without a word on how to sign in."""
    from azureml.core import Workspace

    names = {"subscription_id": given["subscription"], "resource_group": given["group"]}
    Path("config.json").write_text(json.dumps({**names, "workspace_name": given["workspace"]}))
    workspace = Workspace.from_config()
    return {"workspace": workspace.name, "computes": sorted(workspace.compute_targets)}


def main() -> None:
    """Run one step; the last line says what it saw."""
    given = json.loads(sys.argv[2])
    os.environ.update({name: value for name, value in given.items() if name in ("BROWSER", "DISPLAY", "HOME")})
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        del os.environ[name]
    print(json.dumps(globals()[sys.argv[1]](given)))


if __name__ == "__main__":
    main()
