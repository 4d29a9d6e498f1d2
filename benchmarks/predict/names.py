"""The names of the programs, without importing what they need."""

import ast
from pathlib import Path

FILES = ("language.py", "others.py")


def program_names() -> list[str]:
    """Names of all programs, in the order in which they are listed."""
    trees = [
        ast.parse(Path(__file__).with_name(name).read_text(encoding="utf-8")) for name in FILES
    ]
    return [
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
