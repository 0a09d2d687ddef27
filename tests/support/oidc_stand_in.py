"""A stand-in of GitHub's OIDC provider: the endpoint that a job asks for tokens, with a key of its own.

Source: https://docs.github.com/actions/reference/security/oidc. The runner hands a job the endpoint's address and a request token;
the endpoint answers ``{"value": token}``, signed with RS256, for the audience that is asked for.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "https://token.actions.githubusercontent.com"
AUDIENCE = "api://AzureADTokenExchange"
REPOSITORY = "octo/digits"
_KEY_ID = "e2e"


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


@dataclass
class Provider:
    """What the endpoint answers, and what it was asked.

    Attributes:
        status: anything but 200 refuses.
        subject: whose tokens it gives.
        request_token: what a job must show.
        asked: the audiences that were asked for, in order.
        issued: the tokens that were given.
        clock: the seconds since the epoch.
    """

    address: str = ""
    status: int = 200
    subject: str = f"repo:{REPOSITORY}:ref:refs/heads/main"
    lifetime: int = 300
    request_token: str = field(default_factory=lambda: f"request-{secrets.token_hex(16)}")
    asked: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.time
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    @property
    def keys(self) -> str:
        """The JSON Web Key Set with which the tokens are checked."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(value.to_bytes((value.bit_length() + 7) // 8, "big")) for value in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": _KEY_ID, "n": n, "e": e}]})

    def environment(self) -> dict[str, str]:
        """Return what the runner sets for a job with `permissions: id-token: write`."""
        return {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.address}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": self.request_token,
        }

    def answer(self, target: str, authorization: str) -> tuple[int, dict[str, str]]:
        """Return status and JSON for one request."""
        audience = parse_qs(urlsplit(target).query).get("audience", [""])[0]
        self.asked.append(audience)
        if self.status != 200:
            return self.status, {"message": "no"}
        if authorization != f"Bearer {self.request_token}":
            return 401, {"message": "the request token is wrong"}
        self.issued.append(self.token(audience))
        return 200, {"value": self.issued[-1]}

    def token(self, audience: str) -> str:
        """Return a new token, signed."""
        now = int(self.clock())
        claims = {
            "iss": ISSUER, "sub": self.subject, "aud": audience, "repository": REPOSITORY, "ref": "refs/heads/main",
            "jti": secrets.token_hex(16), "iat": now, "nbf": now, "exp": now + self.lifetime,
        }  # fmt: skip
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        content = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        return f"{content}.{_encoded(self._key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


@contextmanager
def serving(provider: Provider, host: str) -> Iterator[Provider]:
    """Serve *provider* at *host*, an address of this machine that containers reach."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, value = provider.answer(self.path, self.headers.get("Authorization", ""))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer((host, 0), Handler)
    provider.address = f"http://{host}:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
