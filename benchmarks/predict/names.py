"""The names of the programs, without importing what they need."""

import ast
from pathlib import Path

FILES = ("language.py", "others.py", "large.py")
ASKED = ("asked.py", "asked_pictures.py")
"""Programs of other models, at settings that people ask about."""
FORMATS = ("formats.py", "formats_pictures.py")
"""Again other models, asked for the number format first."""
SETS = {"first": FILES, "asked": ASKED, "formats": FORMATS}
TOGETHER = ("together.py",)
"""Programs of two ranks, and the same on one."""


def program_names(files: tuple[str, ...] = FILES) -> list[str]:
    """Names of all programs, in the order in which they are listed."""
    return [name for file in files for name in _declared(file)]


def ranks_of(name: str) -> int:
    """Ranks on which a program is recorded."""
    return 2 if name in _declared(TOGETHER[0]) and name.endswith("_on_two") else 1


def _declared(file: str) -> list[str]:
    tree = ast.parse(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
