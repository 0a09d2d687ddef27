"""The HTTP client trusts what it is told, and reads it once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from aml_train.core.http_client import ProxyAdapter


def pool_of(adapter: ProxyAdapter, verify: Any, url: str = "https://a.example/x") -> Any:
    """Return the pool of connections, as a request would open one."""
    request = requests.Request("GET", url).prepare()
    pool = adapter.get_connection_with_tls_context(request, verify)
    adapter.cert_verify(pool, url, verify, None)
    return pool


def test_a_bundle_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    adapter, bundle = ProxyAdapter(), tmp_path / "ca.pem"
    bundle.write_bytes(Path(DEFAULT_CA_BUNDLE_PATH).read_bytes())
    first, other = pool_of(adapter, str(bundle)), pool_of(adapter, str(bundle), "https://b.example/")
    context = first.conn_kw["ssl_context"]
    assert context is other.conn_kw["ssl_context"]
    assert (first.ca_certs, first.ca_cert_dir, first.cert_reqs) == (None, None, "CERT_REQUIRED")
    assert len(context.get_ca_certs()) > 50
    os.utime(bundle, ns=(1, 1))
    assert pool_of(adapter, str(bundle)).conn_kw["ssl_context"] is not context
    assert pool_of(adapter, True).conn_kw["ssl_context"] is not context


def test_what_is_not_to_be_verified_or_is_missing_has_no_trust(tmp_path: Path) -> None:
    adapter = ProxyAdapter()
    pool = pool_of(adapter, False)
    assert "ssl_context" not in pool.conn_kw
    assert pool.cert_reqs == "CERT_NONE"
    with pytest.raises(OSError, match="invalid path"):
        pool_of(adapter, str(tmp_path / "none.pem"))
