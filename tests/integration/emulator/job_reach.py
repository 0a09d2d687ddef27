"""A job that tries what it reaches from its network: of the emulator, of the registry, and through the proxy."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

import requests

from aml_emulator.executor.spec import LOG_PATH
from tests.integration.conftest import BASE
from tests.support import emulator_client

SECONDS = 600.0
SCRIPT = """
import json, os, socket, urllib.error, urllib.request

host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
proxied = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://{host}:{port}"}))

def status(opener, url, method="GET"):
    try:
        with opener.open(urllib.request.Request(url, method=method), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

def tunnel(target):
    with socket.create_connection((host, int(port)), 20) as connection:
        connection.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
        return int(connection.recv(4096).split(b" ")[1])

registry, other = os.environ["REGISTRY_PORT"], os.environ["OTHER"]
own = f"http://{host}:{port}"
seen = {
    "health": status(straight, f"{own}/_emulator/health"),
    "info": status(straight, f"{own}/_emulator/info"),
    "reset": status(straight, f"{own}/_emulator/reset?force=1", "POST"),
    "page": status(straight, f"{own}/ui/"),
    "registry": status(straight, f"http://{host}:{registry}/v2/"),
    "catalogue": status(straight, f"http://{host}:{registry}/v2/_catalog"),
    "by itself": status(proxied, f"{own}/_emulator/info"),
    "registry by itself": status(proxied, f"http://{host}:{registry}/v2/_catalog"),
    "spelled": [tunnel(f"{one}:{port}") for one in ("127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]")],
    "bridge": tunnel(f"{host}:{port}"),
    "metadata": [
        status(proxied, f"http://{one}/") for one in ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192")
    ],
    "another emulator": [status(proxied, f"http://{other}/{path}") for path in ("_emulator/info", "ui/")],
    "its tunnel": tunnel(other),
    "service": tunnel("management.azure.com:443"),
}
print(json.dumps(seen))
"""

WANTED = {
    "health": 200,
    "info": 403,
    "reset": 403,
    "page": 403,
    "registry": 401,
    "catalogue": 401,
    "by itself": 403,
    "registry by itself": 403,
    "spelled": [403, 403, 403, 403, 403],
    "bridge": 403,
    "metadata": [403] * 4,
    "another emulator": [403] * 2,
    "its tunnel": 403,
    "service": 200,
}


def reached(session: requests.Session, info: Mapping[str, Any], *, registry_port: int, other: str) -> dict[str, Any]:
    """Have a job run the script, and return what it has seen.

    Args:
        session: signed in to the emulator.
        info: what ``/_emulator/info`` says.
        registry_port: of the emulator, as a job finds it.
        other: host and port of another emulator, as this one finds it.
    """
    workspace = (
        f"{emulator_client.MANAGEMENT}/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
        f"/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
    )
    query = {"api-version": "2024-04-01"}

    def put(path: str, properties: dict[str, Any]) -> None:
        answer = session.put(f"{workspace}/{path}", params=query, json={"properties": properties}, timeout=60)
        assert answer.ok, answer.text

    put("environments/plain/versions/1", {"image": BASE})
    scope = workspace.removeprefix(emulator_client.MANAGEMENT)
    put(
        "jobs/reach",
        {
            "jobType": "Command",
            "command": f"echo {base64.b64encode(SCRIPT.encode()).decode()} | base64 -d | python3 -",
            "environmentId": f"{scope}/environments/plain/versions/1",
            "computeId": f"{scope}/computes/local-cluster",
            "experimentName": "reach",
            "environmentVariables": {"REGISTRY_PORT": str(registry_port), "OTHER": other},
        },
    )
    patience = time.monotonic() + SECONDS
    while (
        status := session.get(f"{workspace}/jobs/reach", params=query, timeout=60).json()["properties"]["status"]
    ) not in ("Completed", "Failed", "Canceled"):
        assert time.monotonic() < patience, status
        time.sleep(0.2)
    history = f"https://{info['api_host']}/history/v1.0{scope}/experiments/reach/runs/reach/details"
    log = session.get(
        session.get(history, timeout=60).json()["logFiles"][LOG_PATH], headers={"Authorization": ""}, timeout=60
    )
    assert status == "Completed", log.text
    seen: dict[str, Any] = json.loads(log.text.splitlines()[-1])
    return seen
