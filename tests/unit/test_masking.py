from __future__ import annotations

import base64
import io
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_train.masking import MASK, Masker, MaskingStream, derive, known_secrets, maskable, parts_of
from aml_train_action.commands import annotation

SECRET = "s3cr3t/Val+ue~with=signs"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
SAS = "https://x.blob.core.windows.net/c/b?sv=2024-01-01&sig=AbC%2Fdef%3D%3D&se=2026"


def filtered(secrets: list[str], *chunks: bytes) -> bytes:
    sink = io.BytesIO()
    stream = MaskingStream(sink, Masker(secrets))
    for chunk in chunks:
        stream.write(chunk)
    stream.close()
    return sink.getvalue()


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
        ("INPUT_CLIENT-SECRET", False, True),
        ("INPUT_AZURE_CREDENTIALS", False, True),
        ("db_password", False, True),
        ("SSH_KEY", False, True),
        ("MY_SAS", False, True),
        ("AZURE_STORAGE_ACCOUNT", False, True),
        ("AZURE_SUBSCRIPTION_ID", True, True),
        ("AZURE_SUBSCRIPTION_ID", False, False),
        ("AZURE_CONFIG_DIR", True, False),
        ("GPG_KEY", True, False),
        ("SASQUATCH", True, False),
        ("TOKENIZERS_PARALLELISM", True, False),
        ("PATH", True, False),
    ],
)
def test_names_say_what_is_secret(name: str, identifiers: bool, expected: bool) -> None:
    assert (known_secrets({name: "value-1234"}, identifiers=identifiers) == {"value-1234"}) is expected


def test_changes_of_the_configuration_may_be_secret() -> None:
    lines = "image.base=python\n  job.environment_variables.HF_TOKEN=abc=def\njob.inputs.seed=12345\nno change"
    assert known_secrets({"INPUT_SET": lines}, identifiers=True) == {"abc=def"}


def test_a_secret_in_the_property_of_a_command_is_masked() -> None:
    secret = "a:b,c%d-long-enough"
    assert Masker([secret]).mask(annotation("error", "x", file=secret)) == f"::error file={MASK}::x"


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
@pytest.mark.parametrize("offset", range(6))
def test_every_disguise_is_masked(secret: str, offset: int) -> None:
    masker = Masker([secret])
    for part in parts_of(secret):
        lead = "x" * offset
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(f"{lead}{part}{lead}".encode()).decode()
            if len(part) >= 8:
                assert MASK in masker.mask(text)
        for text in (part, quote(part), quote(part, safe=""), json.dumps(part), repr(part), part.replace("%", "%25")):
            assert part not in masker.mask(f"{lead}{text}")
            assert MASK in masker.mask(f"{lead}{text}")


def test_overlapping_secrets_leave_nothing() -> None:
    assert Masker(["abcdef", "defghi"]).mask("..abcdefghi..") == "..***.."
    assert Masker(["abcdef", "abcdefgh"]).mask("abcdefghi") == "***i"


def test_signatures_are_masked_even_if_nobody_knows_them() -> None:
    assert Masker().mask("GET /b?sv=1&sig=Qx%2F1&se=2 ok") == "GET /b?sv=1&sig=***&se=2 ok"


@settings(max_examples=150)
@given(st.data())
def test_any_division_into_chunks_gives_the_same(data: st.DataObject) -> None:
    secrets = data.draw(st.lists(st.text("abcd", min_size=4, max_size=7), min_size=1, max_size=3))
    text = "".join(
        data.draw(st.lists(st.one_of(st.text("abcd\n", max_size=6), st.sampled_from(secrets)), max_size=12))
    )
    whole = filtered(secrets, text.encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    chunks = [text[a:b].encode() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert filtered(secrets, *chunks) == whole
    assert not any(secret.encode() in whole for secret in secrets)
    assert whole.decode() == Masker(secrets).mask(text)


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


def test_secrets_that_come_later_are_told_once() -> None:
    masker = Masker()
    assert masker.add("first-secret") == ["first-secret"]
    assert masker.add("first-secret") == []
    assert Masker(["b-secret", "a-secret"]).told == ["a-secret", "b-secret"]
