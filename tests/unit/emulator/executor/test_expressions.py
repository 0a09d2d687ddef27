from __future__ import annotations

import pytest

from aml_emulator.executor.expressions import ExpressionError, Reference, expression_references, render


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python t.py", "python t.py"),
        ("t --lr ${{inputs.lr}}", "t --lr 0.1"),
        ("t --lr ${{ inputs.lr }}", "t --lr 0.1"),
        ("t ${{inputs.flag}} ${{inputs.flag}}", "t True True"),
        ("t '${{inputs.text}}'", "t 'it is \"so\" $HOME'"),
        ("t ${{inputs.data}}/x ${{outputs.model}}", "t /in/data/x /out/model"),
        ("t $[[--lr ${{inputs.lr}}]]", "t --lr 0.1"),
        ("t $[[--none ${{inputs.none}}]] end", "t  end"),
        ("t $[[--a ${{inputs.lr}} ${{inputs.none}}]]", "t "),
        ("t $[[--a]] $HOME ${VAR} $(x)", "t --a $HOME ${VAR} $(x)"),
        ("t ${{inputs.trick}}", "t ${{inputs.lr}} $[[x]]"),
    ],
)
def test_expressions_are_replaced_by_text_as_it_is(command: str, expected: str) -> None:
    inputs = {
        "lr": "0.1",
        "flag": "True",
        "text": 'it is "so" $HOME',
        "data": "/in/data",
        "trick": "${{inputs.lr}} $[[x]]",
    }
    assert render(command, inputs, {"model": "/out/model"}) == expected


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("${{inputs.b}}", r"\$\{\{inputs\.b\}\}: the job has no input 'b' \(it has: a\)"),
        ("${{outputs.b}}", r"the job has no output 'b' \(it has: none\)"),
        ("$[[${{outputs.b}}]]", "the job has no output 'b'"),
        ("${{search_space.lr}}", r"search_space\.lr\}\}: only"),
        ("${{inputs.a.b}}", r"the job has no input 'a\.b' \(it has: a\)"),
        ("${{inputs.a..b}}", "only"),
    ],
)
def test_what_cannot_be_resolved_is_named(command: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        render(command, {"a": "1"}, {})


def test_references_are_found_with_whether_they_are_optional() -> None:
    assert expression_references("${{inputs.a}} $[[x ${{inputs.b}}]] ${{outputs.c}}") == (
        Reference(group="inputs", name="a", optional=False),
        Reference(group="inputs", name="b", optional=True),
        Reference(group="outputs", name="c", optional=False),
    )
