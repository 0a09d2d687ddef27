"""Stands in for TensorFlow in tests: each task serves at its own address of TF_CONFIG, meets all others, and prints what it knows as JSON."""

import json
import os
import socket
import time

config = json.loads(os.environ["TF_CONFIG"])
places = {
    f"{role} {index}": place for role, all_of in config["cluster"].items() for index, place in enumerate(all_of)
}
own = f"{config['task']['type']} {config['task']['index']}"


def address(place: str) -> "tuple[str, int]":
    """Return host and port."""
    host, _, port = place.rpartition(":")
    return host, int(port)


def tell(place: str) -> None:
    """Say to another task who this is; it may not serve yet."""
    while True:
        try:
            with socket.create_connection(address(place)) as connection:
                connection.sendall(own.encode())
                return
        except ConnectionRefusedError:
            time.sleep(0.05)


with socket.create_server(address(places[own]), backlog=len(places)) as server:
    for place in places.values():
        tell(place)
    met = sorted(server.accept()[0].makefile().read() for _ in places)
print(json.dumps({**os.environ, "TF_CONFIG": config, "met": met, "host": socket.gethostname()}))
