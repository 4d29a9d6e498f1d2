"""Runs the notebooks of the documentation without Jupyter, writes what their cells give: `python -m
docs.notebooks`.

A cell's value stands in it as text; what a notebook draws (a report, a figure, a frame) it draws
when someone runs it.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def outputs(notebook: dict[str, Any]) -> list[str | None]:
    """The value of each code cell's last line as text, None where it has none; run from the
    repository's root."""
    names: dict[str, Any] = {}
    return [
        _run("".join(cell["source"]), names)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _run(source: str, names: dict[str, Any]) -> str | None:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    return None if value is None else repr(value)


def with_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the text of its cells as they come out now."""
    made = iter(outputs(notebook))
    cells = [
        cell if cell["cell_type"] != "code" else _shown(cell, next(made))
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def _shown(cell: dict[str, Any], text: str | None) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    # A figure's text is pages of numbers, which nobody reads in a file.
    if text is not None and not text.startswith("Figure("):
        result = {"output_type": "execute_result", "execution_count": None, "metadata": {}}
        shown = [{**result, "data": {"text/plain": text.splitlines(keepends=True)}}]
    return {**cell, "execution_count": None, "outputs": shown}


if __name__ == "__main__":
    for path in NOTEBOOKS:
        written = with_outputs(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
