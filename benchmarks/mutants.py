"""Would the tests notice? `python -m benchmarks.mutants [--count 60] [--seed 0] [--jobs 2] [--only TEXT]`

Makes one-line mutations in `analysis/` and `diagnosis/` (a comparison turned round, a sum made a difference, the start
of something taken for its end), each in a copy of the tree, and runs the tests that mirror the changed file: those of
its own name, then those of its room, then all of `tests/analysis` and `tests/diagnosis`. A mutant dies when one fails.
Which lines are mutated follows from the code and the seed alone, and a change in one function leaves the mutants of the
others as they were. Exit status 1 where fewer than `BAR` die.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("traceanalyzer/analysis", "traceanalyzer/diagnosis")
COPIED = ("traceanalyzer", "tests", "benchmarks", "sample_traces", "docs", "pyproject.toml", "README.md")
BAR = 0.85
LONGEST_S = 600
"""A mutant that makes the tests hang is dead as well."""
WITHOUT = ("test_ops_against_torch.py", "test_ops_on_gpu.py", "test_against_torch.py", "test_flop_counter.py",
           "test_on_recordings.py")  # fmt: skip
"""Left out of the neighbours' tests: they need PyTorch, or a minute, and hold sums, not who is charged with what."""
NEIGHBOURS = "its neighbours'"
MORE_TESTS = {"compile": ["tests/compile"], "memory": ["tests/ingest/memory"]}
"""Tests of a room or file that are not where the mirror would be."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {
    "maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "any": "all", "all": "any",
    "argmax": "argmin", "argmin": "argmax", "start": "end", "end": "start",
}  # fmt: skip
"""Calls and attributes, and what is read instead."""


@dataclass(frozen=True)
class Mutant:
    """One line of one file, changed."""

    path: Path
    """Of the file, from the root of the tree."""
    function: str
    line: int
    before: str
    after: str
    original: str
    text: str
    """The whole file as it is, and with the change in it."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: `{self.before}` becomes `{self.after}`"

    def order(self, seed: int) -> str:
        """Where it comes among all, the same as long as its function has the same text."""
        return hashlib.sha256(f"{seed} {self.path} {self.function} {self.before} {self.after}".encode()).hexdigest()


def changed(node: ast.AST) -> ast.AST | None:
    """The node with another meaning, None where there is none to give."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(operator)]()], right)
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC and not is_text(left, right):
            return ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.UnaryOp(ast.Invert() | ast.Not(), operand):
            return operand
        case ast.BoolOp(ast.And(), values):
            return ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(ast.Or(), values):
            return ast.BoolOp(ast.And(), values)
        case ast.Attribute(value, name) if name in NAMES:
            return ast.Attribute(value, NAMES[name])
        case ast.Call(ast.Name(name), arguments, keywords) if name in NAMES:
            return ast.Call(ast.Name(NAMES[name]), arguments, keywords)
        case ast.keyword("side", ast.Constant(side)):
            return ast.keyword("side", ast.Constant({"left": "right", "right": "left"}[side]))
    return None


def is_text(*operands: ast.expr) -> bool:
    """Whether this is no arithmetic: texts, lists and sets are put together by the same signs."""
    kinds = (ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp)
    return any(isinstance(o, kinds) or (isinstance(o, ast.Constant) and isinstance(o.value, str)) for o in operands)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutation of the functions of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        annotations = {id(n) for a in annotated(function) for n in ast.walk(a)}
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            new = None if id(node) in annotations else changed(node)
            if new is None or node.lineno != node.end_lineno:
                continue
            line = lines[node.lineno - 1].encode()
            before, after = line[node.col_offset : node.end_col_offset], ast.unparse(new).encode()
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare):
                after = b"(" + after + b")"
            mutated = (line[: node.col_offset] + after + line[node.end_col_offset :]).decode()
            whole = "".join([*lines[: node.lineno - 1], mutated, *lines[node.lineno :]])
            yield Mutant(path, function.name, node.lineno, before.decode(), after.decode(), text, whole)


def annotated(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns


def chosen(count: int, seed: int, only: str) -> list[Mutant]:
    """At most one a function and three a file, spread by the hash of their text."""
    files = [p.relative_to(ROOT) for room in ROOMS for p in sorted((ROOT / room).rglob("*.py")) if only in str(p)]
    every = sorted((m for path in files for m in mutants(path)), key=lambda m: m.order(seed))
    result: list[Mutant] = []
    functions, of_file = set(), Counter[Path]()
    for mutant in every:
        if (mutant.path, mutant.function) not in functions and of_file[mutant.path] < 3:
            result.append(mutant)
            functions.add((mutant.path, mutant.function))
            of_file[mutant.path] += 1
    return result[:count]


def mirrors(path: Path) -> list[tuple[str, list[str]]]:
    """The tests to run, nearest first: of the file, of its room, of its neighbours."""
    room = Path("tests") / path.parent.relative_to("traceanalyzer")
    own = room / f"test_{path.name}"
    elsewhere = MORE_TESTS.get(path.parent.name, MORE_TESTS.get(path.stem, []))
    every = ["tests/analysis", "tests/diagnosis"]
    steps = [("its own tests", [str(own)] if (ROOT / own).exists() else []),
             ("its room's", [*([str(room)] if (ROOT / room).exists() else []), *elsewhere]),
             (NEIGHBOURS, every)]  # fmt: skip
    return [(name, tests) for name, tests in steps if tests]


def killed_by(mutant: Mutant, tree: Path, broken: list[str]) -> str | None:
    """Which tests a mutant fails, None where it passes all."""
    target, options = tree / mutant.path, ["-x", *(f"--deselect={test}" for test in broken)]
    target.write_text(mutant.text, encoding="utf-8")
    try:
        for name, tests in mirrors(mutant.path):
            if tested(tests, tree, WITHOUT if name == NEIGHBOURS else (), options):
                return name
        return None
    finally:
        target.write_text(mutant.original, encoding="utf-8")


def failing(tree: Path) -> list[str]:
    """Tests that fail as the code is."""
    every = ["tests/analysis", "tests/diagnosis", *(path for paths in MORE_TESTS.values() for path in paths)]
    return tested(every, tree, (), [])


def tested(tests: list[str], tree: Path, without: tuple[str, ...], options: list[str]) -> list[str]:
    """The tests that fail, or what else went wrong."""
    ignored = [f"--ignore-glob=*/{name}" for name in without]
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:xdist", "-p", "no:cacheprovider"]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "mutants", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *options, *ignored, *tests],
            cwd=tree, env=environment, capture_output=True, timeout=LONGEST_S, check=False, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["the tests hang"]
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return found or ([] if done.returncode in (0, 5) else ["the tests cannot be run"])  # 5: there are none


def copied(folder: Path) -> Path:
    """A copy of the tree for one worker."""
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, folder / name)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--list", action="store_true", help="say what would be mutated, and end")
    options = parser.parse_args()
    found = chosen(options.count, options.seed, options.only)
    if options.list:
        print("\n".join(map(str, found)))
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as workers:
        trees = [copied(Path(folder) / str(i)) for i in range(options.jobs)]
        broken = failing(trees[0])
        if broken:
            print(f"left out, since they fail without any mutation: {', '.join(broken)}", flush=True)

        def one(mutant: Mutant) -> str | None:
            tree = trees.pop()
            try:
                return killed_by(mutant, tree, broken)
            finally:
                trees.append(tree)

        deaths = []
        for mutant, death in zip(found, workers.map(one, found), strict=True):
            deaths.append(death)
            print(f"{'killed by ' + death if death else 'SURVIVES'}: {mutant}", flush=True)
    dead = sum(death is not None for death in deaths)
    by = ", ".join(f"{n} by {name} tests" for name, n in Counter(d for d in deaths if d).most_common())
    print(f"{dead} of {len(found)} die ({dead / len(found):.0%}): {by}. {time.monotonic() - begun:.0f} s")
    return 0 if dead >= BAR * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
