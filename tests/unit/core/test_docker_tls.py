"""The authority of an engine at ``tcp://``, whatever the environment trusts."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.tls import TLSConfig

from aml_train.core.docker import TlsDockerClient
from tests.support.tls import Authority


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_bundle_of_the_environment_does_not_replace_the_engines_authority(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/etc/ssl/certs/ca-certificates.crt")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:3128")
    Authority().write(tmp_path)
    tls = TLSConfig(
        client_cert=(f"{tmp_path}/cert.pem", f"{tmp_path}/key.pem"), ca_cert=f"{tmp_path}/ca.pem", verify=True
    )
    client = TlsDockerClient(base_url="tcp://192.0.2.1:2376", version="1.41", tls=tls)
    try:
        settings = client.api.merge_environment_settings("https://192.0.2.1:2376/version", {}, None, None, None)
    finally:
        client.close()
    assert settings["verify"] == f"{tmp_path}/ca.pem"
    assert settings["proxies"]["https"] == "http://127.0.0.1:3128"
