from __future__ import annotations

import base64
import io
import json
from urllib.parse import quote

import pytest

from aml_train.core.masking import MASK, Masker, MaskingStream, without_tokens
from aml_train.core.secrets import derive, known_secrets, maskable, parts_of

SECRET = "s3cr3t/Val+ue~with=signs"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
SAS = "https://x.blob.core.windows.net/c/b?sv=2024-01-01&sig=AbC%2Fdef%3D%3D&se=2026"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abc", False),
        ("{", False),
        ("{}{}{}", False),
        ("true", False),
        ("None", False),
        ("----", False),
        ("abcd", True),
    ],
)
def test_short_and_trivial_words_are_never_masked(value: str, expected: bool) -> None:
    assert maskable(value) is expected
    assert bool(derive(value)) is expected


@pytest.mark.parametrize(
    ("name", "identifiers", "expected"),
    [
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", False, True),
        ("ACTIONS_ID_TOKEN_REQUEST_URL", False, True),
        ("INPUT_AZURE_CREDENTIALS", False, True),
        ("db_password", False, True),
        ("WANDB_API_KEY", False, True),
        ("storageAccountKey", False, True),
        ("clientSecret", False, True),
        ("DEPLOY_KEY_2", False, True),
        ("SECRET_KEY_BASE", False, True),
        ("DOCKER_AUTH_CONFIG", False, True),
        ("MY_SAS", False, True),
        ("AZURE_STORAGE_CONNECTION_STRING", False, True),
        ("AZURE_SUBSCRIPTION_ID", True, True),
        ("AZURE_SUBSCRIPTION_ID", False, False),
        ("AZURE_CONFIG_DIR", True, False),
        ("AZURE_FEDERATED_TOKEN_FILE", True, False),
        ("SSH_KEY_NAME", True, False),
        ("SSH_PUBLIC_KEY", True, False),
        ("INPUT_SECRET-PATH", True, False),
        ("PASSWORD_LENGTH", True, False),
        ("MAX_TOKENS", True, False),
        ("PAD_TOKEN", True, False),
        ("MONKEY", True, False),
        ("PWD", True, False),
        ("GPG_KEY", True, False),
    ],
)
def test_names_say_what_is_secret(name: str, identifiers: bool, expected: bool) -> None:
    assert (known_secrets({name: "value-1234"}, identifiers=identifiers) == {"value-1234"}) is expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DOCKER_HOST", "tcp://me:S%40cret@10.0.0.1:2376", {"S%40cret", "S@cret"}),
        ("HTTPS_PROXY", "http://:hunter22@proxy:3128", {"hunter22"}),
        ("INDEXES", "https://a:first1@x/ https://b:second2@y/", {"first1", "second2"}),
        ("URL", "https://host:8080/me:you@x", set()),
        ("URL", "https://me@host/", set()),
    ],
)
def test_passwords_of_addresses_are_secret(name: str, value: str, expected: set[str]) -> None:
    assert known_secrets({name: value}, identifiers=False) == expected


def test_changes_of_the_configuration_may_be_secret() -> None:
    lines = "image.base=python\n  job.environment_variables.HF_TOKEN=abc=def\njob.inputs.seed=12345\nno change"
    assert known_secrets({"INPUT_SET": lines}, identifiers=True) == {"abc=def"}


def test_parts_are_lines_fields_and_signatures() -> None:
    assert parts_of(PEM) >= {"MIIEvQIBADANBg", "kqhkiG9w0BAQEF"}
    document = json.dumps(
        {"clientSecret": "hunter2hunter2", "deep": [{"x": '{"inner": "nested-value"}'}], "aUrl": "https://login"}
    )
    found = parts_of(document)
    assert {"hunter2hunter2", "nested-value"} <= found
    assert "https://login" not in found
    assert {"AbC%2Fdef%3D%3D", "AbC/def=="} <= parts_of(SAS)
    assert all("\n" not in part for part in found | parts_of(PEM))


@pytest.mark.parametrize(
    "secret", [SECRET, PEM, SAS, "kurz", "ünïcödé-pässwörd", json.dumps({"a": SECRET}, indent=2)]
)
@pytest.mark.parametrize("offset", range(3))
def test_every_disguise_is_masked(secret: str, offset: int) -> None:
    masker = Masker([secret])
    for part in parts_of(secret):
        lead = "x" * offset
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(f"{lead}{part}{lead}".encode()).decode()
            if len(part) >= 8:
                assert MASK in masker.mask(text)
        for text in (part, quote(part), quote(part, safe=""), json.dumps(part), repr(part)):
            assert part not in masker.mask(f"{lead}{text}")
            assert MASK in masker.mask(f"{lead}{text}")


def test_signatures_are_masked_even_if_nobody_knows_them() -> None:
    assert Masker().mask("GET /b?sv=1&sig=Qx%2F1&se=2 ok") == "GET /b?sv=1&sig=***&se=2 ok"


def test_a_jobs_own_token_is_masked_by_its_shape() -> None:
    head, claims = (
        base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', b'{"sub":"job"}')
    )
    for text, masked in (
        (f"ü AZUREML_RUN_TOKEN={head}.{claims}.c2ln-_ end", "ü AZUREML_RUN_TOKEN=*** end"),
        (f"{head}.{claims}", f"{head}.{claims}"),
    ):
        assert Masker().mask(text) == without_tokens(text) == masked


def test_a_line_of_ten_megabytes_in_pieces_holds_no_more_than_a_secret_back() -> None:
    masker = Masker([SECRET, "aaaa"])
    sink = io.BytesIO()
    stream = MaskingStream(sink, masker)
    written = 0
    for _ in range(160):
        chunk = b"a" * 1_000 + SECRET.encode() + b"x" * 64_000
        stream.write(chunk[:1_010])
        stream.write(chunk[1_010:])
        written += len(chunk)
        assert len(stream._scrubber._held) < masker.longest
    stream.close()
    assert written > 10_000_000
    assert sink.getvalue() == (b"******" + b"x" * 64_000) * 160


def test_what_may_grow_into_a_secret_waits_and_a_line_end_lets_it_go() -> None:
    sink = io.BytesIO()
    stream = MaskingStream(sink, Masker(["password1"]))
    stream.write(b"my pass")
    stream.flush()
    assert sink.getvalue() == b"my "
    stream.write(b"port\n")
    assert sink.getvalue() == b"my passport\n"


def test_secrets_that_come_later_are_returned_once() -> None:
    masker = Masker()
    assert masker.add("first-secret") == ["first-secret"]
    assert masker.add("first-secret") == []
    assert Masker(["b-secret", "a-secret"]).parts == ["a-secret", "b-secret"]


@pytest.mark.parametrize(
    ("secret", "text", "masked"),
    [
        ("test", "a test", "a ***"),
        ("p@s", "p@s p%40s", "p@s ***"),
        ("main\na/b1!", "main a/b1! a%2Fb1%21", "*** *** ***"),
        ("....", "....", "***"),
        ("ab\n", "ab", "ab"),
        ("long-password", "bG9uZy1wYXNzd29yZA==", "***=="),
    ],
)
def test_a_declared_secret_is_masked_even_if_it_is_an_ordinary_word(secret: str, text: str, masked: str) -> None:
    masker = Masker()
    masker.add_declared(secret)
    assert masker.mask(text) == masked


def test_an_identifier_is_shown_whatever_it_holds() -> None:
    masker = Masker(["wine", "east-us-secret"])
    masker.keep("wine-771f00-1")
    assert masker.mask("job wine-771f00-1: wine, wine-771f00-2") == "job wine-771f00-1: ***, ***-771f00-2"
    assert masker.mask("east-us-secretwine-771f00-1") == "***wine-771f00-1"
    assert masker.holds("wine-771f00-1")
    assert not masker.holds("beer-771f00-1")
