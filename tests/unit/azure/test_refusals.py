"""What refused sign-ins are told as."""

from __future__ import annotations

import pytest

from aml_train.azure.sign_in import reason, remedy

CLAIMS = {
    "iss": "https://token.actions.githubusercontent.com",
    "sub": "repo:octo/digits:environment:prod",
    "aud": "api://AzureADTokenExchange",
    "repository": "octo/digits",
    "environment": "prod",
}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Authentication failed: AADSTS7000215: Invalid client secret provided. Trace ID: 1 Correlation ID: 2",
            "AADSTS7000215: Invalid client secret provided.",
        ),
        (
            "Microsoft Entra ID error '(invalid_client) AADSTS700213: No record for 'repo:a/b'. Trace ID: 1'",
            "AADSTS700213: No record for 'repo:a/b'.",
        ),
        ("Microsoft Entra ID error '(invalid_client) AADSTS7: For 'x''", "AADSTS7: For 'x'"),
        ("Authentication failed: unknown 'x'", "unknown 'x'"),
        ("the token eyJhbGciOi.eyJzdWIi.sig-nature is bad", "the token (token) is bad"),
        ("  \n ", "no reason was given"),
        ("a\r\nb", "a b"),
    ],
)
def test_reason(message: str, expected: str) -> None:
    assert reason(message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("AADSTS7000222: The provided client secret keys are expired.", "has expired: make a new one"),
        ("AADSTS700016: Application not found", "Check the client id (AZURE_CLIENT_ID)"),
        ("AADSTS90002: Tenant not found", "Check the tenant id (AZURE_TENANT_ID)"),
        ("AADSTS700213: No matching federated identity", "subject:  repo:octo/digits:environment:prod"),
        ("AADSTS70021: No matching federated identity", "audience: api://AzureADTokenExchange"),
        ("AADSTS700211: No matching issuer", "issuer:   https://token.actions.githubusercontent.com"),
        ("AADSTS700213: x", "repository octo/digits, environment prod"),
        (
            "AADSTS700213: x",
            'az ad app federated-credential create --id CLIENT_ID --parameters \'{"name": "octo-digits-environment-prod"',
        ),
        ("AADSTS7002138: x", "differs from the assertion's subject in upper and lower case alone"),
        ("AADSTS7002138: x", "subject:  repo:octo/digits:environment:prod"),
        ("something else", "Check the client id, the tenant id"),
    ],
)
def test_remedy(message: str, expected: str) -> None:
    assert expected in remedy(message, CLAIMS)
