"""The text of .devcontainer/devcontainer.json: what is ours changes, what is the user's stays."""

from __future__ import annotations

import pytest

from aml_train.cli.devcontainer import updated_devcontainer
from aml_train.cli.jsonc import parse_jsonc
from aml_train.core.errors import InvalidError

OLD, NEW = "r.io/digits@sha256:" + "a" * 64, "r.io/digits@sha256:" + "b" * 64
WHERE = ".devcontainer/devcontainer.json"


def test_only_our_values_change() -> None:
    mine = (
        f'// ours\n{{\n  "image": "{OLD}",\n  "features": {{}}, // none yet\n  /* mine */ "postCreateCommand": "make",\n'
        '  "customizations": {\n    "aml-train": {\n      "address": "addr-1"\n    }\n  }\n}\n'
    )
    updated = updated_devcontainer(mine, NEW, {"address": "addr-2"}, WHERE)
    assert updated == mine.replace(OLD, NEW).replace("addr-1", "addr-2")
    assert updated_devcontainer(updated, NEW, {"address": "addr-2"}, WHERE) == updated
    assert parse_jsonc(updated)["image"] == NEW


def test_a_file_that_others_wrote_is_adopted() -> None:
    text = '{\n\t"name": "ours", // the team\'s\n}\n'
    updated = updated_devcontainer(text, NEW, {"address": "addr-2"}, WHERE)
    assert updated.endswith('\n\t"name": "ours", // the team\'s\n}\n')
    assert parse_jsonc(updated) == {
        "name": "ours",
        "image": NEW,
        "customizations": {"aml-train": {"address": "addr-2"}},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"build": {"dockerfile": "Dockerfile"}}', f"{WHERE}: `build` builds the container: the tested image is used as it is"),
        ('{"dockerComposeFile": "c.yml"}', "`dockerComposeFile` builds the container"),
        ('{"image": 1}', "`image` is no text: delete it"),
        ("[]", "it is no object"),
        ('{\n"image": "x"\n', f"{WHERE}: it cannot be changed: line 3: "),
        ('{"customizations": []}', "it cannot be changed: `customizations` is no object"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_changed(text: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        updated_devcontainer(text, NEW, {}, WHERE)
