"""No secret and no longer part of one gets through, in any form and in any chunks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from hypothesis import assume, example, given
from hypothesis import strategies as st

from aml_train.core.masking import MASK, Masker, Scrubber, without_tokens
from aml_train.core.secrets import known_secrets, maskable

PART: Final = 8
FORMS: Final[dict[str, Callable[[str], str]]] = {
    "plain": lambda secret: secret,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "url": lambda secret: quote(secret, safe=""),
    "hex": lambda secret: secret.encode().hex(),
    "json": lambda secret: json.dumps(secret)[1:-1],
}
SECRETS = st.sampled_from(["s3cr3t-T0ken!", "p@ss/w0rd+x=", "abcdefgh12345678", "cr3?sig=n", "8Rxyzw-1"]) | st.text(
    alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='*{["'), min_size=PART, max_size=40
)
FILLERS = st.sampled_from(["a token: ", "\n", "\r\n", "?sig=abc%2Fdef&x", "AccountKey=", "&amp;", ""]) | st.text(
    max_size=5
)


@given(
    secret=SECRETS,
    form=st.sampled_from(sorted(FORMS)),
    before=FILLERS,
    after=FILLERS,
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
@example(secret="cr3?sig=n", form="plain", before="", after="", cuts=[])
def test_no_form_of_a_secret_is_shown(secret: str, form: str, before: str, after: str, cuts: list[int]) -> None:
    assume(maskable(secret))
    masker, hidden = Masker([secret]), FORMS[form](secret)
    written = f"{before}{hidden}{after}"
    masked = masker.mask(written)
    assert hidden not in masked or hidden in before + "\0" + after
    for part in (secret[:PART], secret[-PART:]) if form == "plain" else ():
        assert part not in masked or part in f"{before}\0{after}\0{MASK}"
    without_tokens(written)
    known_secrets({"INPUT_SET": written, "TOKEN": secret}, identifiers=True)
    data = written.encode("utf-8", "surrogatepass")
    scrubber, out, start = Scrubber(masker), b"", 0
    for cut in sorted(cut for cut in cuts if cut <= len(data)):
        out += scrubber.feed(data[start:cut])
        start = cut
    out += scrubber.feed(data[start:], final=True)
    assert out == Scrubber(masker).feed(data, final=True)
    assert secret.encode() not in out
