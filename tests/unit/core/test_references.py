from __future__ import annotations

import re

import pytest

from aml_train.core.references import ImageRef

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "full", "familiar"),
    [
        ("python", "docker.io/library/python:latest", "python:latest"),
        ("python:3.11", "docker.io/library/python:3.11", "python:3.11"),
        ("me/app", "docker.io/me/app:latest", "me/app:latest"),
        ("docker.io/library/python:3", "docker.io/library/python:3", "python:3"),
        ("index.docker.io/me/app:1", "docker.io/me/app:1", "me/app:1"),
        ("localhost/app:1", "localhost/app:1", "localhost/app:1"),
        ("localhost:5000/app", "localhost:5000/app:latest", "localhost:5000/app:latest"),
        ("nvcr.io/nvidia/pytorch:25.09-py3", "nvcr.io/nvidia/pytorch:25.09-py3", "nvcr.io/nvidia/pytorch:25.09-py3"),
        (f"my.azurecr.io/a/b_c@{DIGEST}", f"my.azurecr.io/a/b_c@{DIGEST}", f"my.azurecr.io/a/b_c@{DIGEST}"),
        (f"a:1@{DIGEST}", f"docker.io/library/a:1@{DIGEST}", f"a:1@{DIGEST}"),
        ("[::1]:5000/x:1", "[::1]:5000/x:1", "[::1]:5000/x:1"),
        # Without docker.io/ their first part would be a registry.
        ("docker.io/a.b/c:1", "docker.io/a.b/c:1", "docker.io/a.b/c:1"),
        ("docker.io/localhost/c:1", "docker.io/localhost/c:1", "docker.io/localhost/c:1"),
        # Another image than me/app: only names of one part are Docker's own.
        ("library/me/app:1", "docker.io/library/me/app:1", "library/me/app:1"),
    ],
)
def test_references_are_read_and_printed(text: str, full: str, familiar: str) -> None:
    ref = ImageRef.parse(text)
    assert str(ref) == full
    assert ref.familiar == familiar
    assert ImageRef.parse(str(ref)) == ref


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must be lower-case words"),
        ("Python", "must be lower-case words"),
        ("a//b", "must be lower-case words"),
        ("a:", "has the tag ''"),
        ("a:b c", "has the tag 'b c'"),
        ("a@sha256:123", "has a digest that is not"),
        ("a@", "has a digest that is not"),
        ("a@md5:" + "0" * 32, "has a digest that is not"),
        ("http://x.io/a", "which is not a host name"),
        ("ex_ample.com:x/a", "which is not a host name"),
    ],
)
def test_what_is_no_reference_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        ImageRef.parse(text)
