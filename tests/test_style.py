"""How the code reads, as counts that only fall: a count above the number stored beside it fails. Where
a count has fallen, lower its number (`LOWER_BY` says when the test asks for it)."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING

import complexipy
import pytest

from tests.recorded import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "traceanalyzer"
MOST = {
    "comments to the formatter": 0,
    "walruses": 32,
    "walruses outside of the test of an if or while": 0,
    "lines of 30 tokens or more": 208,
    "hundredths of a token in a mean line of code": 918,
    "functions of more than 60 lines": 0,
    "functions of more than 15 local variables": 4,
    "functions of more than 7 parameters": 17,
    "functions of a cognitive complexity above 12": 81,
    "files with a constant after a function": 0,
    "docstrings that begin with what they do not name": 0,
    "truth values as numbers": 0,
    "slices of padded sequences": 0,
    "loops over one element": 0,
    "dictionaries as an if": 0,
    "public names in several files": 45,
    "empty names of variables or parameters": 1,
}
"""The most that there may be of each, in all of the package: a little above what there is, so that
work side by side does not fail."""
LOWER_BY = 0.9
"""A number is to be lowered where the count has fallen below this part of it."""
LONG_LINE = 30  # tokens
LONG_FUNCTION = 60  # lines
MANY_LOCALS = 15
MANY_PARAMETERS = 7
COMPLEX = 12  # cognitive complexity
EMPTY_NAMES = {"one", "of", "here", "there", "said", "mine", "whole", "made"}
"""They say nothing of what a variable or parameter holds, and are fine for the element of a
comprehension or the parameter of a lambda."""
UNNAMED = re.compile(r"(The same\b|Of (each|the|all)\b|As of\b|Those of\b)")
FORMATTER = re.compile(r"# fmt: (?:skip|off)")
TOKEN = re.compile(
    r'''(?P<comment>\#[^\n]*)
    |(?P<text>[rbfuRBFU]{0,2}(?:"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<other>\w+(?:\.\d\w*)?|\*\*=?|//=?|>>=?|<<=?|->|:=|[-+*/%&|^=<>!@]=|\.\.\.|[^\s\w])
    |(?P<newline>\n)''',
    re.VERBOSE | re.DOTALL,
)


def test_no_count_rises() -> None:
    risen = [
        f"{count} {what} (at most {MOST[what]}): {', '.join(places[what][:20])}"
        for what, count in counts().items()
        if count > MOST[what]
    ]
    assert not risen, "\n".join(risen)
    fallen = {what: n for what, n in counts().items() if n < MOST[what] * LOWER_BY}
    if fallen:
        warnings.warn(f"lower the numbers of tests/test_style.py to {fallen}", stacklevel=1)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("if (a := b()): pass", "walruses"),
        ("x = [a for b in c if (a := b)]", "walruses outside of the test of an if or while"),
        ("x = 's' * (a > 1)", "truth values as numbers"),
        ("x -= a > 1", "truth values as numbers"),
        ("x = [*a, None][:2]", "slices of padded sequences"),
        ("x = (a + [None])[:2]", "slices of padded sequences"),
        ("for x in [f()]: pass", "loops over one element"),
        ("y = [x for g in h for x in [f(g)]]", "loops over one element"),
        ("x = {1: 2}.get(y)", "dictionaries as an if"),
        ("x = {1: 2}[y]", "dictionaries as an if"),
        ("here = 1", "empty names of variables or parameters"),
        ("def f(*, here): pass", "empty names of variables or parameters"),
        (
            'def f():\n    """The same of others."""',
            "docstrings that begin with what they do not name",
        ),
        ("def f(): pass\nMOST = 1", "files with a constant after a function"),
        ("x = 1  # fmt: skip", "comments to the formatter"),
        ("def f(a, b, c, d, e, f, g, h): pass", "functions of more than 7 parameters"),
    ],
)
def test_what_is_counted(code: str, what: str) -> None:
    assert [name for name, _ in found_in(code)].count(what) == 1


def test_what_is_not_counted() -> None:
    code = (
        "x = [one for one in y]\nwhile (a := b()): pass\nz = {1: 2}\nw = a[:2] * 3\nLIMIT = 1\n"
        "v = lambda one: one\n"
    )
    assert [name for name, _ in found_in(code)] == ["walruses"]


def test_tokens_are_those_of_python() -> None:
    line = "x = f'{a}' + b.c(1.5, *d)[-1:] ** 2  # not this"
    assert tokens_by_line(line) == {1: 20}


places: dict[str, list[str]] = defaultdict(list)


@cache
def counts() -> Counter[str]:
    """How much there is of each in the package; `places` then has where."""
    result = Counter(dict.fromkeys(MOST, 0))
    files_of: dict[str, set[str]] = defaultdict(set)
    tokens = lines = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        code = path.read_text(encoding="utf-8")
        tree = ast.parse(code)
        found, by_line = read(code, tree)
        for what, line in found:
            result[what] += 1
            places[what].append(f"{name}:{line}")
        tokens += sum(by_line.values())
        lines += len(by_line)
        for public in public_names(tree):
            files_of[public].add(name)
        for function in complexipy.file_complexity(str(path)).functions:
            if function.complexity > COMPLEX:
                result["functions of a cognitive complexity above 12"] += 1
    result["hundredths of a token in a mean line of code"] = round(100 * tokens / lines)
    shared = [name for name, files in files_of.items() if len(files) > 1]
    result["public names in several files"] = len(shared)
    places["public names in several files"] += shared
    return result


def public_names(tree: ast.Module) -> Iterator[str]:
    """The functions and classes that a file has for others."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def tokens_by_line(code: str) -> dict[int, int]:
    """Tokens that begin in each line, comments left out."""
    result: Counter[int] = Counter()
    line = 1
    for match in TOKEN.finditer(code):
        if match.lastgroup == "newline":
            line += 1
        elif match.lastgroup != "comment":
            result[line] += 1
            line += match[0].count("\n") if match.lastgroup == "text" else 0
    return result


def found_in(code: str) -> list[tuple[str, int]]:
    """What is counted, and the line, of one file."""
    return read(code, ast.parse(code))[0]


def read(code: str, tree: ast.Module) -> tuple[list[tuple[str, int]], dict[int, int]]:
    """What is counted in a file, and the line; and the tokens of each line that has any, docstrings
    and comments left out."""
    reader = _Reader()
    reader.visit(tree)
    tokens = tokens_by_line(code)
    by_line = {line: count for line, count in tokens.items() if line not in reader.text}
    long_lines = [line for line, count in by_line.items() if count >= LONG_LINE]
    late = _constant_after_function(tree)
    found = [
        *reader.found,
        *(("comments to the formatter", 0) for _ in FORMATTER.finditer(code)),
        *(("lines of 30 tokens or more", line) for line in long_lines),
        *([("files with a constant after a function", late)] if late else []),
    ]
    return found, by_line


def _constant_after_function(tree: ast.Module) -> int:
    """The line of the first constant that stands below a function, 0 without."""
    after = False
    for node in tree.body:
        after = after or isinstance(node, ast.FunctionDef)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if after and isinstance(targets[0], ast.Name) and targets[0].id.strip("_").isupper():
            return node.lineno
    return 0


class _Reader(ast.NodeVisitor):
    """Goes through a file once and notes what is counted."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self.text: set[int] = set()  # lines of docstrings
        self._locals: list[set[str]] = []  # of the functions that are being read
        self._in_test = 0
        self._elements: set[int] = set()  # names that comprehensions and lambdas bind

    def _note(self, what: str, node: ast.AST) -> None:
        self.found.append((what, getattr(node, "lineno", 0)))

    def visit_If(self, node: ast.If | ast.While) -> None:
        self._in_test += 1
        self.visit(node.test)
        self._in_test -= 1
        for child in (*node.body, *node.orelse):
            self.visit(child)

    visit_While = visit_If  # noqa: N815

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._note("walruses", node)
        if not self._in_test:
            self._note("walruses outside of the test of an if or while", node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._document(node)
        parameters = len(node.args.args) + len(node.args.kwonlyargs)
        if parameters > MANY_PARAMETERS:
            self._note("functions of more than 7 parameters", node)
        if (node.end_lineno or node.lineno) - node.lineno + 1 > LONG_FUNCTION:
            self._note("functions of more than 60 lines", node)
        self._locals.append(set())
        self.generic_visit(node)
        own = self._locals.pop()
        if len(own) > MANY_LOCALS:
            self._note("functions of more than 15 local variables", node)
        if self._locals:
            self._locals[-1] |= own

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._document(node)
        self.generic_visit(node)

    def _document(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        if UNNAMED.match(ast.get_docstring(node) or ""):
            self._note("docstrings that begin with what they do not name", node)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            self.text.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        else:
            self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Nothing is counted in it."""

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._one_element(node.iter)
        names = (name for name in ast.walk(node.target) if isinstance(name, ast.Name))
        self._elements |= {id(name) for name in names}
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        for part in node.generators:
            self.visit(part)
        self.visit(node.elt)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> None:
        for part in (*node.generators, node.key, node.value):
            self.visit(part)

    def visit_For(self, node: ast.For) -> None:
        self._one_element(node.iter)
        self.generic_visit(node)

    def _one_element(self, looped: ast.expr) -> None:
        elements = looped.elts if isinstance(looped, ast.List | ast.Tuple | ast.Set) else []
        if len(elements) == 1 and not isinstance(elements[0], ast.Starred):
            self._note("loops over one element", looped)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            return
        if self._locals:
            self._locals[-1].add(node.id)
        if node.id in EMPTY_NAMES and id(node) not in self._elements:
            self._note("empty names of variables or parameters", node)

    def visit_arg(self, node: ast.arg) -> None:
        if node.arg in EMPTY_NAMES and id(node) not in self._elements:
            self._note("empty names of variables or parameters", node)
        self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._elements |= {id(parameter) for parameter in node.args.args}
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        repeats = isinstance(node.op, ast.Mult) and any(map(_is_sequence, sides))
        if repeats and any(map(_is_truth, sides)):
            self._note("truth values as numbers", node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult) and _is_truth(node.value):
            self._note("truth values as numbers", node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Slice) and _is_padded(node.value):
            self._note("slices of padded sequences", node)
        if isinstance(node.value, ast.Dict) and node.value.keys:
            self._note("dictionaries as an if", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        asks = isinstance(function, ast.Attribute) and function.attr == "get"
        if asks and isinstance(function.value, ast.Dict) and function.value.keys:
            self._note("dictionaries as an if", node)
        self.generic_visit(node)


def _is_sequence(node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, ast.List | ast.Tuple | ast.JoinedStr)


def _is_truth(node: ast.expr) -> bool:
    """Whether it is true or false and no array: arrays of truth values are counted and summed."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "bool"
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_padded(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return isinstance(node.right, ast.List | ast.Tuple)
    if not isinstance(node, ast.List | ast.Tuple) or len(node.elts) < 2:
        return False
    return any(isinstance(element, ast.Starred) for element in node.elts)
