"""Our signed documents in the hands of others' tools: OpenSSF's `model_signing`, and cosign."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from aml_train.models.passport.issue import PASSPORT_FILE, PASSPORT_TYPE
from aml_train.models.passport.manifest import SIGNATURE_FILE
from scripts.bootstrap.stand_in import find_mirror, read_sources
from tests.support.emulator_process import ROOT
from tests.support.passport_world import PassportWorld, Shape, new_signer
from tests.support.sigstore_stand_in import SigstoreStandIn

KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECONDS: Final = 300


class NoCosignError(Exception):
    """There is none, and none can be fetched; the message says why."""


def find_cosign(folder: Path) -> str:
    """Return the program; fetch it into *folder* if this machine has none.

    Raises:
        NoCosignError: neither is possible.
    """
    if (found := shutil.which("cosign")) is not None:
        return found
    program = folder / "cosign/usr/bin/cosign"
    if not program.is_file():
        if shutil.which("apt-get") is None or not KEYRING.is_file():
            raise NoCosignError("neither cosign nor an archive of Debian is here")
        with tempfile.TemporaryDirectory(prefix="cosign-") as temporary:
            _fetch(Path(temporary), program.parents[2])
    return str(program)


def _fetch(temporary: Path, target: Path) -> None:
    """Download the package, which apt checks by its signed list, and unpack it."""
    lists = temporary / "sources.list"
    lists.write_text(f"deb [signed-by={KEYRING}] {find_mirror(read_sources(Path('/etc/apt')))} trixie main\n")
    for name in ("state", "cache/archives/partial", "lists/partial"):
        (temporary / name).mkdir(parents=True)
    (temporary / "state/status").touch()
    options = {
        "Dir::Etc::sourcelist": lists,
        "Dir::Etc::sourceparts": "-",
        "Dir::State": temporary / "state",
        "Dir::State::lists": temporary / "lists",
        "Dir::State::status": temporary / "state/status",
        "Dir::Cache": temporary / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    _run([*apt, "update"], temporary)
    _run([*apt, "download", "cosign"], temporary)
    (package,) = temporary.glob("cosign_*.deb")
    target.mkdir(parents=True, exist_ok=True)
    _run(["dpkg-deb", "--extract", str(package), str(target)], temporary)


def _run(argv: list[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise NoCosignError(f"{' '.join(argv[:1] + argv[-1:])} failed: {done.stderr.strip()[-300:]}")


CURVES: list[ec.EllipticCurve] = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]
FILES = {
    "plain": {"weights.bin": b"\x00\x01", "config.json": b"{}"},
    "folders": {"a/z": b"1", "a-": b"2"} | {f"layer-{n}/w-{n}.bin": b"%d" % n for n in range(50)},
    "odd": {"ä b.bin": b"1", "line\nbreak": b"2", "back\\slash": b"3", ".hidden/x": b"", "empty": b""},
}


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A model that was signed, in files."""

    world: PassportWorld
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a tool; a tool that wanted the network would fail."""
        return subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)


def signed(folder: Path, curve: ec.EllipticCurve, files: dict[str, bytes] | None = None) -> Signed:
    """Sign a model, and write what `aml-train model passport` and `data download` write."""
    folder.mkdir(exist_ok=True)
    shape = Shape() if files is None else Shape(files=files)
    world = PassportWorld(shape=shape, signer=new_signer(curve=curve))
    for name in (PASSPORT_FILE, SIGNATURE_FILE):
        (folder / name).write_bytes(world.passports.kept["digits", "7", name])
    for path, content in world.shape.files.items():
        (folder / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "model" / path).write_bytes(content)
    world.public_key(folder)
    (folder / "image.json").write_bytes(world.image.content)
    return Signed(world=world, folder=folder)


def _changed(place: Signed) -> None:
    (place.model / "weights.bin").write_bytes(b"other")


def _added(place: Signed) -> None:
    (place.model / "backdoor").write_bytes(b"x")


def _renamed(place: Signed) -> None:
    (place.model / "weights.bin").rename(place.model / "z.bin")


def _other_key(place: Signed) -> None:
    PassportWorld().public_key(place.folder)


def test_model_signing_verifies_our_files_and_refuses_changed_ones(tmp_path: Path) -> None:
    """All in one process of that tool, which takes seconds to start."""
    good = [signed(tmp_path / name, CURVES[0], files) for name, files in FILES.items()]
    good += [signed(tmp_path / curve.name, curve) for curve in CURVES[1:]]
    changes = {
        _changed: "Hash mismatch for",
        _added: "Extra files found in model",
        _renamed: "Missing files in model",
        _other_key: "signature",
    }
    bad = [signed(tmp_path / change.__name__, CURVES[0]) for change in changes]
    for place, change in zip(bad, changes, strict=True):
        change(place)
    worker = str(Path(__file__).with_name("model_signing_worker.py"))
    done = good[0].run(sys.executable, worker, *(str(place.folder) for place in (*good, *bad)))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[: len(good)] == [""] * len(good)
    for error, reason in zip(found[len(good) :], changes.values(), strict=True):
        assert reason in error


@pytest.fixture(scope="session")
def cosign(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the program."""
    try:
        return find_cosign(ROOT / ".aml-train")
    except NoCosignError as error:
        pytest.skip(f"cosign cannot be had: {error}")


def by_cosign(place: Signed, cosign: str, image: str = "image.json") -> subprocess.CompletedProcess[str]:
    """Have cosign verify the passport against the manifest of its image, which is its subject."""
    # Keys need no roots; cosign fetches those of the public instance unless it is given others.
    config = json.loads(SigstoreStandIn().trust_config(place.folder).read_text())
    (place.folder / "root.json").write_text(json.dumps(config["trustedRoot"]))
    options = [
        "--bundle",
        PASSPORT_FILE,
        "--key",
        "signing.pub",
        "--type",
        PASSPORT_TYPE,
        "--trusted-root",
        "root.json",
    ]
    return place.run(
        cosign, "verify-blob-attestation", "--new-bundle-format", "--insecure-ignore-tlog", *options, image
    )


def _flip(place: Signed) -> None:
    bundle = json.loads((place.folder / PASSPORT_FILE).read_text())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b'"passed"', b'"Passed"')
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    (place.folder / PASSPORT_FILE).write_text(json.dumps(bundle))


def _other_image(place: Signed) -> None:
    (place.folder / "image.json").write_bytes(b"{}")


@pytest.mark.full
def test_cosign_verifies_a_passport(cosign: str, tmp_path: Path) -> None:
    """Of P-256: cosign (2.5, 3.1) hashes with SHA-256 whatever the key."""
    place = signed(tmp_path, ec.SECP256R1())
    done = by_cosign(place, cosign)
    assert done.returncode == 0, done.stderr
    assert "Verified OK" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("change", [_flip, _other_key, _other_image])
def test_cosign_refuses_a_changed_passport(change: Callable[[Signed], None], cosign: str, tmp_path: Path) -> None:
    place = signed(tmp_path, ec.SECP256R1())
    change(place)
    done = by_cosign(place, cosign)
    assert done.returncode != 0
    assert "failed to verify signature" in done.stderr or "invalid signature" in done.stderr
