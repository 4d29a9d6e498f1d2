"""The words of everything users read: help, errors, findings, remedies, definitions, notes and
pages.

`docs/` and the texts of the program say what engineers in the field say. Each word or phrase here
was misread by someone, or made a reader stop; what to write instead stands beside it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from docs import generate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSTEAD = {
    "anew": "again",
    "again and again": "repeatedly",
    "does as well": "or",
    "do as well": "or",
    "held against": "compared with",
    "hold against": "compare with",
    "own truth": "a step time without the profiler",
    "of your own can": "custom",
    "spoiled measurement": "caveat",
    "tensor cores do not like": "misaligned",
    "matrix products": "matmuls",
    "let them": "enable, use",
    "merge them": "fuse",
    "as far as it lasts": "within its length",
    "no computation hides": "does not overlap with compute",
    "whose ceiling is": "limited by",
    "idles because the host": "is idle because the CPU",
    "nobody waits": "no rank waits",
    "costs nothing measurable": "did not slow",
    "a negligible": "a figure",
    "utilize": "use",
    "leverage": "use",
    "simply": "nothing",
    "please": "nothing",
}
"""Words that users do not meet, each with what is said instead."""
UNWANTED = re.compile(rf"\b(?:{'|'.join(map(re.escape, INSTEAD))})\b", re.IGNORECASE)
PACKAGE = generate.ROOT / "traceanalyzer"


def texts_of_program(path: Path) -> Iterator[tuple[int, str]]:
    """Texts with a blank in them, by line: nobody but us reads docstrings. Of a resource all of its
    lines."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and " " in text and id(node) not in docstrings:
            yield node.lineno, text


def written(folder: Path) -> list[Path]:
    """The files of a folder of the package that hold texts of its own."""
    every = sorted(folder.rglob("*"))
    return [
        path
        for path in every
        if path.suffix in (".py", ".txt")
        or path.name == "remedies.toml"
        or path.parent.name == "findings"
    ]


def unwanted(texts: Iterator[tuple[int, str]]) -> list[str]:
    """What is to be written otherwise, with its line."""
    found = ((line, hit[0]) for line, text in texts for hit in UNWANTED.finditer(text))
    return [f"line {line}: {word!r}; better: {INSTEAD[word.lower()]}" for line, word in found]


def test_there_are_texts_of_every_kind() -> None:
    texts = [text for path in written(PACKAGE) for _, text in texts_of_program(path)]
    for part in (
        "Check a run against limits",
        "The CPU blocks on the GPU",
        "Remove the sync: ",
        "cannot be opened",
    ):
        assert any(part in text for text in texts), part


def test_what_is_unwanted_is_found() -> None:
    assert unwanted(iter([(3, "Tensors are cast Again and again.")])) == [
        "line 3: 'Again and again'; better: repeatedly"
    ]
    assert unwanted(iter([(1, "manew simplying")])) == []


@pytest.mark.parametrize(
    "room", sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name[0] != "_")
)
def test_the_program_speaks_plain_english(room: str) -> None:
    found = {
        str(path.relative_to(PACKAGE)): words
        for path in written(PACKAGE / room)
        if (words := unwanted(texts_of_program(path)))
    }
    assert found == {}


@pytest.mark.parametrize("path", generate.pages(), ids=lambda p: str(p.relative_to(generate.ROOT)))
def test_the_pages_speak_plain_english(path: Path) -> None:
    assert unwanted(iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))) == []
