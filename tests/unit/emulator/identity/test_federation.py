"""Which assertions of other issuers are trusted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from aml_emulator.identity.federation import AUDIENCE, FederatedCredential, Federation
from aml_emulator.identity.tokens import TokenError
from tests.unit.emulator.parts import IDENTITY, Service

ISSUER = "https://token.actions.githubusercontent.com"
SUBJECT = "repo:octo/digits:ref:refs/heads/main"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def token(key: rsa.RSAPrivateKey = KEY, **changes: object) -> str:
    claims = {"iss": ISSUER, "sub": SUBJECT, "aud": AUDIENCE, "exp": 2**40, **changes}
    content = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one"}, claims))
    return f"{content}.{encoded(key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def keys(key: rsa.RSAPrivateKey = KEY, kid: str = "one") -> str:
    numbers = key.public_key().public_numbers()
    n, e = (encoded(value.to_bytes(256, "big").lstrip(b"\x00")) for value in (numbers.n, numbers.e))
    return json.dumps({"keys": [{"kty": "EC"}, {"kty": "RSA", "kid": kid, "n": n, "e": e}]})


def trusting(**changes: Any) -> Federation:
    federation = Federation()
    federation.add(FederatedCredential(**{"issuer": ISSUER, "subject": SUBJECT, **changes}))
    return federation


def test_as_long_as_nothing_is_configured_only_the_audience_counts() -> None:
    Federation().check(token(iss="anybody", sub="anything"))
    with pytest.raises(TokenError, match=r"AADSTS700212: .* presented assertion audience 'other'"):
        Federation().check(token(aud="other"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iss": "https://other"}, "AADSTS700211: No matching federated identity record found for presented assertion issuer 'https://other'. Check your federated identity credential"),
        ({"aud": "other"}, "AADSTS700212: No matching federated identity record found for presented assertion audience 'other'. Check your federated identity credential"),
        ({"sub": "repo:octo/digits:pull_request"}, "AADSTS700213: No matching federated identity record found for presented assertion subject 'repo:octo/digits:pull_request'. Check your federated identity credential"),
        ({"sub": SUBJECT.upper()}, f"AADSTS7002138: No matching federated identity record found for presented assertion subject '{SUBJECT.upper()}'. The subject matches with case-insensitive comparison, but not with case-sensitive comparison. Check your federated identity credential"),
        ({"key": rsa.generate_private_key(public_exponent=65537, key_size=2048)}, "AADSTS50013: Assertion failed signature validation."),
    ],
)  # fmt: skip
def test_issuer_audience_subject_and_signature_must_fit(changes: dict[str, Any], message: str) -> None:
    federation = trusting(keys=keys())
    federation.check(token())
    federation.check(token(aud=["other", AUDIENCE]))
    with pytest.raises(TokenError) as caught:
        federation.check(token(**changes))
    assert caught.value.message.startswith(message)


@pytest.fixture
def emulator() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def test_trusts_by_the_admin_interface_decide_a_sign_in(emulator: Service) -> None:
    def ask(method: str, query: str = "") -> tuple[int, Any]:
        return emulator.admin(method, f"federated-credentials?{query}")

    def sign_in(assertion: str = "") -> Any:
        form = {
            "grant_type": "client_credentials",
            "client_id": IDENTITY.client_id,
            "scope": "https://management.azure.com/.default",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion or token(),
        }
        return emulator.call(
            "POST",
            f"/{IDENTITY.tenant_id}/oauth2/v2.0/token",
            host="login.microsoftonline.com",
            token=None,
            content=urlencode(form).encode(),
        )

    assert sign_in().status == 200
    status, answer = ask("POST", f"issuer={quote(ISSUER)}&subject=repo:octo/other")
    assert (status, answer["federated_credentials"][0]["subject"]) == (200, "repo:octo/other")
    refused = sign_in()
    assert refused.status == 401
    assert "AADSTS700213" in str(refused.json)
    assert ask("POST", urlencode({"issuer": ISSUER, "subject": SUBJECT, "keys": keys()}))[0] == 200
    assert sign_in().status == 200
    status, answer = ask("POST", "issuer=x")
    assert (status, "subject" in answer["error"]) == (400, True)
    assert ask("POST", "issuer=x&subject=y&keys=%5B%5D")[0] == 400
    assert len(ask("GET")[1]["federated_credentials"]) == 2
    assert ask("DELETE") == (200, {"federated_credentials": []})
