"""A package index behind TLS and basic authentication, a certification authority of its own, and wheels to serve."""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import http.server
import io
import ipaddress
import ssl
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def wheel(name: str, version: str, requires: tuple[str, ...] = ()) -> tuple[str, bytes]:
    """Return file name and contents of a wheel that holds one module, which says its version."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                f"Version: {version}",
                *(f"Requires-Dist: {one}" for one in requires),
                "",
            ]
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
    return f"{module}-{version}-py3-none-any.whl", buffer.getvalue()


@dataclass
class Index:
    """A running server.

    Attributes:
        url: where it is, as containers reach it.
        authority: the certificate that it is to be trusted by, PEM.
        seen: the value of ``Authorization`` of each request.
    """

    url: str
    authority: bytes
    seen: list[str | None] = field(default_factory=list)


@contextmanager
def serve(folder: Path, address: str, files: Mapping[str, bytes], *, login: str | None = None) -> Iterator[Index]:
    """Serve *files* at ``/files/NAME``, and wheels among them as an index at ``/simple/``, over TLS at *address*.

    Args:
        folder: where key and certificate are kept.
        address: IP address to listen at.
        files: name → contents.
        login: ``user:password`` that is asked for; None for nobody.
    """
    authority, chain = _certificates(folder, address)
    index = Index(url="", authority=authority)
    wanted = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization")
            index.seen.append(given)
            kind, _, name = self.path.strip("/").partition("/")
            content: bytes | None = None
            if kind == "files":
                content = files.get(name)
            elif kind == "simple":
                own = [one for one in files if one.split("-")[0].replace("_", "-") == name]
                content = "".join(f'<a href="/files/{one}">{one}</a>\n' for one in own).encode() if own else None
            status = 401 if wanted is not None and given != wanted else 200 if content is not None else 404
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="index"')
            body = content if status == 200 and content is not None else b""
            self.send_header("Content-Type", "text/html" if kind == "simple" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "max-age=3600")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    index.url = f"https://{address}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


@contextmanager
def serve_folder(folder: Path, address: str) -> Iterator[str]:
    """Serve the files of *folder* at *address*, by HTTP; give the URL."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = http.server.ThreadingHTTPServer((address, 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{address}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _certificates(folder: Path, address: str) -> tuple[bytes, Path]:
    """Make an authority and a certificate for *address*; return the authority's PEM, and the file that a server loads."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("Test authority", address)]

    def builder(number: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(names[number])
            .issuer_name(names[0])
            .public_key(keys[number].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    key_id = x509.SubjectKeyIdentifier.from_public_key(keys[0].public_key())
    authority = (
        builder(0)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_id, critical=False)
        .sign(keys[0], hashes.SHA256())
    )
    names_of = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
    leaf = (
        builder(1)
        .add_extension(names_of, critical=False)
        .add_extension(issuer, critical=False)
        .sign(keys[0], hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    chain = folder / "server.pem"
    chain.write_bytes(
        keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + leaf.public_bytes(pem)
    )
    return authority.public_bytes(pem), chain
