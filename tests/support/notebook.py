"""Execute the notebook of the examples in a kernel that has this checkout's sources."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples/notebook/digits.ipynb"


def execute(folder: Path, *before: str, environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Execute it in *folder*; return the outputs of its code cells, in order.

    Args:
        folder: the kernel's working directory, next to which is the project.
        before: cells that come first.
        environ: the kernel's environment; by default this process's.
    """
    reads: Any = nbformat.reads
    new_cell: Any = nbformat.v4.new_code_cell
    notebook = reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)
    sources = f"import sys; sys.path[:0] = {[str(ROOT / 'runner')]!r}"
    notebook.cells[:0] = [new_cell(source) for source in (sources, *before)]
    client = NotebookClient(
        notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=dict(os.environ if environ is None else environ))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [output for cell in cells[len(before) + 1 :] for output in cell.outputs]


def check(outputs: list[dict[str, Any]]) -> str:
    """Check that the report, curves and a comparison are shown; return the printed text."""
    frames = html.unescape("".join("".join(one.get("data", {}).get("text/html", "")) for one in outputs))
    shown = "".join("".join(one.get("data", {}).get("text/plain", "")) for one in outputs)
    printed = "".join(one.get("text", "") for one in outputs)
    for text in ("passed", "val/accuracy", "met with", "<figure"):
        assert text in frames, text
    assert "<script" not in frames
    for text in ("the last is", "A - B"):
        assert text in shown, text
    assert "digits version" in printed
    return printed
