"""The references of a job's command: ``${{inputs.x}}`` and ``$[[ … ]]``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aml_train.config.yaml.nodes import Faults, MapNode, Mark, Node, ScalarNode, find, join, shown
from aml_train.config.yaml.shapes import nearest

_BRACKETS: Final = re.compile(r"\$\[\[.*?\]\]", re.DOTALL)
_NOUNS: Final = {"inputs": "input", "outputs": "output", "search_space": "hyperparameter"}
_OPTIONAL: Final = re.compile(r"\$\[\[|\]\]")


def check_command(
    tree: MapNode, prefix: str, faults: Faults, *, declared: MapNode | None = None, search: bool = False
) -> None:
    """Check that the inputs and outputs in a job's command are declared.

    A fault has the line inside the command.

    Args:
        tree: the mapping with the command.
        prefix: its dotted name in its file.
        faults: takes the faults.
        declared: the mapping with the inputs and outputs, if it is another one.
        search: the command may refer to hyperparameters, which *declared* has as well.
    """
    command = find(tree, "command")
    if not isinstance(command, ScalarNode) or command.kind != "text":
        return
    roots = ("inputs", "outputs", "search_space") if search else ("inputs", "outputs")
    names = {root: _names(find(declared or tree, root)) for root in roots}
    marks = places(command, "${{")
    known: dict[tuple[str | None, bool], tuple[str, str, str] | None] = {}
    for number, found in enumerate(_references(command.text)):
        if faults.full:
            return
        if found not in known:
            known[found] = _problem(*found, names, prefix)
        problem = known[found]
        if problem is not None:
            what, why, remedy = problem
            faults.add(marks(number), what, why=why, remedy=remedy)
    _check_optional(command, faults)
    remark_lost(command, faults)


#: What makes a shell stop at the first failure, or what only a parser of the shell's language could judge.
_STOPS: Final = re.compile(r"\b(?:set|bash|sh)\s+[-+][a-z]*e|errexit|&&|\|\||<<|\b(?:if|for|while|case|function)\b")
#: Lines whose failure nobody needs.
_HARMLESS: Final = ("#", "echo ", "export ", "ls", "nvidia-smi", "set ")
_QUOTED: Final = re.compile(r"""(?<!\w)'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PIPE: Final = re.compile(r"\|&?\s*tee\b")


def remark_lost(command: ScalarNode, faults: Faults, *, shell: str = "", pipes: bool = True) -> None:
    """Remark commands of several lines without ``set -e``, and pipes to ``tee`` without ``pipefail``.

    AzureML runs a command of several lines to its end (Azure/azureml-examples#1991).

    Args:
        command: the text.
        faults: takes the remarks.
        shell: the shell of tests, with its options.
        pipes: whether a failure before a pipe matters.
    """
    text = f"{shell}\n{command.text}"
    quoted = _QUOTED.sub(lambda word: word[0].replace("; ", ";").replace("\n", " "), command.text)
    whole = re.sub(r"[\\|]\s*\n", " ", quoted)
    lines = [one.strip() for one in re.split(r"\n|; ", whole) if one.strip()]
    lost = next((one for one in lines[:-1] if not one.startswith(_HARMLESS)), None)
    if lost is not None and not _STOPS.search(text):
        why, remedy = "the commands after it run, and the last one's status decides", "`set -e`"
        _remark(command, faults, lost, why, remedy, shell)
    pipe = _PIPE.search(command.text)
    if pipes and pipe is not None and "pipefail" not in text:
        line = re.split(r"[\n|;]", command.text[: pipe.start()])[-1].strip()
        why = "a pipe's status is that of its last command"
        _remark(command, faults, line, why, "`set -o pipefail`", shell)


def _remark(command: ScalarNode, faults: Faults, line: str, why: str, remedy: str, shell: str) -> None:
    remedy = "set `tests.shell`, such as to `bash -eo pipefail`" if shell else f"write {remedy} as its first line"
    faults.remark(places(command, line)(0), f"a failure of `{shown(line)}` is lost, because {why}: {remedy}")


def _check_optional(command: ScalarNode, faults: Faults) -> None:
    """Check that each ``$[[`` is closed before the next one.

    A ``]]`` that closes none belongs to the shell.
    """
    marks = places(command, "$[[")
    number, is_open = -1, False
    for match in _OPTIONAL.finditer(command.text):
        if match[0] == "]]":
            is_open = False
            continue
        number += 1
        if is_open:
            faults.add(marks(number), "the command nests `$[[` in `$[[`", remedy="end it with `]]`")
            return
        is_open = True
    if is_open:
        faults.add(marks(number), "the command opens `$[[` and does not close it", remedy="add `]]`")


def _names(node: Node | None) -> dict[str, None]:
    return dict.fromkeys(node.entries) if isinstance(node, MapNode) else {}


def _references(text: str) -> Iterator[tuple[str | None, bool]]:
    """Yield the content of each ``${{ … }}``, and whether it is in ``$[[ … ]]``.

    The content is None for one that is not closed.
    """
    brackets = [match.span() for match in _BRACKETS.finditer(text)]
    position = text.find("${{")
    while position >= 0:
        following = text.find("${{", position + 3)
        end = text.find("}}", position + 3, following if following >= 0 else len(text))
        optional = any(begin < position < close for begin, close in brackets)
        yield text[position + 3 : end] if end >= 0 else None, optional
        position = following


def _problem(
    inner: str | None, optional: bool, declared: Mapping[str, Mapping[str, None]], prefix: str
) -> tuple[str, str, str] | None:
    """Return the fault of a reference, the reason and the remedy; None if it is right.

    An *optional* reference may be to an input that is not given. A name similar to that of another input counts as a typo.
    """
    if inner is None:
        return "the command opens `${{` and does not close it", "", "add `}}`"
    root, dot, rest = inner.strip().partition(".")
    if root not in declared or not dot:
        what = f"the command refers to `${{{{{shown(inner)}}}}}`"
        why = "it belongs to sweep jobs" if root == "search_space" else ""
        return what, why, f"known are {' and '.join(f'`${{{{{known}.NAME}}}}`' for known in declared)}"
    name = rest.removesuffix(".path")
    if name in declared[root] and name != rest:
        what = f"the command refers to `${{{{{shown(inner.strip())}}}}}`"
        return what, "azure-ai-ml refuses it", f"write `${{{{{root}.{shown(name)}}}}}`, which is the path"
    if name in declared[root]:
        return None
    near = nearest(name, tuple(declared[root]))
    if optional and root == "inputs" and near is None and name == rest:
        return None
    remedy = f"did you mean `{near}`?" if near else f"declare it under `{join(prefix, root)}`"
    noun = _NOUNS[root]
    return f"the command refers to the {noun} `{shown(name)}`, which is not declared", "", remedy


def places(command: ScalarNode, token: str) -> Callable[[int], Mark]:
    """Return a function from n to the place of the command's n-th *token*."""
    start = command.mark.line
    lines = [offset for offset, line in enumerate(command.raw) for _ in range(line.count(token))]

    def mark(number: int) -> Mark:
        if start is None or number >= len(lines):
            return command.mark
        return Mark(file=command.mark.file, line=start + lines[number])

    return mark
