from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from aml_emulator import settings
from aml_emulator.identity import identity
from aml_emulator.network import certificates


def test_flags_win_over_the_environment_and_that_over_defaults() -> None:
    environment = {"AML_EMULATOR_DATA": "/d", "AML_EMULATOR_PORT": "1", "AML_EMULATOR_MAX_JOBS": "5"}
    given = settings.parse(["serve", "--port", "2"], environment)
    assert (given.data, given.port, given.max_jobs, given.registry_port) == (Path("/d"), 2, 5, 7381)
    assert (given.location, given.registry_engine_name, given.container) == ("eastus", None, None)
    assert (given.registry_tls_port, given.fuse, given.clients) == (None, False, "host")
    assert (given.job_memory, given.job_processes) == (None, 4096)
    limited = settings.parse(["serve", "--job-memory", "2g"], {**environment, "AML_EMULATOR_JOB_PROCESSES": "9"})
    assert (limited.job_memory, limited.job_processes) == (2 * 2**30, 9)
    assert settings.parse(["serve"], {**environment, "AML_EMULATOR_FUSE": "yes"}).fuse
    assert settings.parse(["serve"], {**environment, "AML_EMULATOR_REGISTRY_TLS_PORT": "0"}).registry_tls_port == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["serve"], "--data"),
        (["serve", "--data", "d", "--port", "x"], "--port: a number from 0 to 65535, not 'x'"),
        (["serve", "--data", "d", "--max-jobs", "0"], "--max-jobs: a number from 1"),
        (["serve", "--data", "d", "--log-level", "loud"], "--log-level"),
        (["serve", "--data", "d", "--location", "a/b"], "--location"),
        (["serve", "--data", "d", "--fuse", "1"], "--fuse: yes or no, not '1'"),
        (["serve", "--data", "d", "--clients", "all"], "--clients: host or network, not 'all'"),
        (["serve", "--data", "d", "--job-memory", "much"], "--job-memory: it is not a size such as '2g': 'much'"),
        (["serve", "--data", "d", "--job-processes", "0"], "--job-processes: a number from 1"),
        ([], "command"),
    ],
)
def test_wrong_flags_are_told(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        settings.parse(argv, {})
    assert message in capsys.readouterr().err


def test_an_identity_is_made_once_and_kept_secret(tmp_path: Path) -> None:
    first = identity.load_or_create(tmp_path, location="eastus")
    assert identity.load_or_create(tmp_path, location="eastus") == first
    moved = identity.load_or_create(tmp_path, location="westus")
    assert (moved.api_host, moved.tenant_id) == ("westus.api.azureml.ms", first.tenant_id)
    assert stat.S_IMODE((tmp_path / "identity.json").stat().st_mode) == 0o600


def test_the_authority_is_kept_and_renewed_in_time(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    first = certificates.prepare_certificates(tmp_path, now=now)
    again = certificates.prepare_certificates(tmp_path, now=now + timedelta(days=30))
    assert again.ca_pem == first.ca_pem
    late = certificates.prepare_certificates(tmp_path, now=now + timedelta(days=3600))
    assert late.ca_pem != first.ca_pem
    server = x509.load_pem_x509_certificate(late.server_cert.read_bytes())
    server.verify_directly_issued_by(x509.load_pem_x509_certificate(late.ca_pem.encode()))
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "*.blob.core.windows.net" in names.get_values_for_type(x509.DNSName)
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600
