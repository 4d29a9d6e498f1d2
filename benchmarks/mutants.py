"""Would the tests notice? `python -m benchmarks.mutants [--count 60] [--seed 0] [--jobs 2] [--only
TEXT] [--near]`

Makes one-line mutations of functions of `analysis/`, `replay/` and `diagnosis/` (a comparison
turned round, a sum made a difference, the start of something taken for its end). One pytest session
collects the tests; for each a fork of it puts the changed function in the place of the one loaded,
and runs tests, nearest first: those of its own name, of its room, those that import its module, the
figures of every recording that is kept (`FIGURES`), then the others of the three rooms and
`MORE_FIGURES`, which `--near` leaves out. A mutant dies when one fails that passes without it.
Which lines are mutated follows from the code and the seed alone, and a change in one function
leaves the mutants of the others as they were. Exit status 1 where fewer than `BAR` die. What a
function did while modules were imported stays as it was, and so does what other processes run: a
mutant of only that survives.
"""

import argparse
import ast
import contextlib
import gc
import hashlib
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("traceanalyzer/analysis", "traceanalyzer/replay", "traceanalyzer/diagnosis")
BAR = 0.85
LONGEST_S = 60
"""CPU seconds of a test: a mutant that makes one hang is dead as well."""
MOST_BYTES = 8 << 30
"""Of address space: one that takes all memory, too."""
WITHOUT = (
    "test_ops_against_torch.py",
    "test_ops_on_gpu.py",
    "test_against_torch.py",
    "test_flop_counter.py",
    "test_on_recordings.py",
)
"""Left out: they need PyTorch, or a minute, and hold sums, not who is charged with what."""
MORE_TESTS = {
    "compile": ("tests/replay/compile",),
    "memory": ("tests/ingest/memory",),
    "changes": ("tests/diagnosis/test_remedies",),
}
"""Tests of a folder or file that are not where the mirror would be: how their paths begin."""
FIGURES = "tests/diagnosis/test_figures_stay.py"
MORE_FIGURES = ("tests/test_devices_brute_force.py", "tests/test_recordings.py", "tests/comparison")
"""Tests of other rooms that hold what recordings say: against their raw files, against what was
changed in them."""
GROUPS = ("its own tests", "its room's", "its importers'", "figures of recordings", "other tests")
FOUND = 1
NOBODY = 0
HUNG = "hangs"

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "maximum": "minimum",
    "minimum": "maximum",
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "argmax": "argmin",
    "argmin": "argmax",
    "start": "end",
    "end": "start",
}
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
        return hashlib.sha256(
            f"{seed} {self.path} {self.function} {self.before} {self.after}".encode()
        ).hexdigest()


def changed(node: ast.AST) -> ast.AST | None:
    """The node with another meaning, None where there is none to give."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(operator)]()], right)
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC and not is_text(
            left, right
        ):
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
    return any(
        isinstance(o, kinds) or (isinstance(o, ast.Constant) and isinstance(o.value, str))
        for o in operands
    )


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
            before = line[node.col_offset : node.end_col_offset]
            after = ast.unparse(new).encode()
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare):
                after = b"(" + after + b")"
            mutated = (line[: node.col_offset] + after + line[node.end_col_offset :]).decode()
            whole = "".join([*lines[: node.lineno - 1], mutated, *lines[node.lineno :]])
            yield Mutant(
                path, function.name, node.lineno, before.decode(), after.decode(), text, whole
            )


def annotated(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns


def chosen(count: int, seed: int, only: str) -> list[Mutant]:
    """At most one a function and three a file, spread by the hash of their text."""
    files = [
        p.relative_to(ROOT)
        for room in ROOMS
        for p in sorted((ROOT / room).rglob("*.py"))
        if only in str(p)
    ]
    every = sorted((m for path in files for m in mutants(path)), key=lambda m: m.order(seed))
    result: list[Mutant] = []
    functions = set()
    of_file = Counter[Path]()
    for mutant in every:
        if (mutant.path, mutant.function) not in functions and of_file[mutant.path] < 3:
            result.append(mutant)
            functions.add((mutant.path, mutant.function))
            of_file[mutant.path] += 1
    return result[:count]


@cache
def imports(test: Path) -> frozenset[str]:
    """The modules that a test file imports, and what it takes from them as if it were modules."""
    found = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return frozenset(found)


def nearness(test: Path, mutated: Path) -> int:
    """The place in `GROUPS` of a test file (from the root) for a mutated file."""
    mirror = Path("tests") / mutated.parent.relative_to("traceanalyzer")
    room = next(folder for folder in (mirror, *mirror.parents) if (ROOT / folder).is_dir())
    if test.name == f"test_{mutated.name}" and test.parts[1] == mirror.parts[1]:
        return 0
    more = (
        path for name in (*mutated.parent.parts, mutated.stem) for path in MORE_TESTS.get(name, ())
    )
    if test.is_relative_to(room) or str(test).startswith(tuple(more)):
        return 1
    if ".".join(mutated.with_suffix("").parts) in imports(ROOT / test):
        return 2
    return 3 if test == Path(FIGURES) else 4


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes(one)


def put_in_place(mutant: Mutant) -> int:
    """Give the loaded functions of the file the mutant's code; how many were changed."""
    file = str(ROOT / mutant.path)
    was, becomes = (
        list(codes(compile(text, file, "exec"))) for text in (mutant.original, mutant.text)
    )
    changed = {
        (a.co_qualname, a.co_firstlineno): b for a, b in zip(was, becomes, strict=True) if a != b
    }
    loaded = [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType) and one.__code__.co_filename == file
    ]
    known = [
        one for one in loaded if (one.__code__.co_qualname, one.__code__.co_firstlineno) in changed
    ]
    for one in known:
        one.__code__ = changed[one.__code__.co_qualname, one.__code__.co_firstlineno]
    return len(known)


@dataclass
class Server:
    """A pytest plugin: once all is collected, it tries the mutants in forks instead of running the
    tests."""

    mutants: list[Mutant]
    jobs: int
    near: bool
    deaths: dict[Mutant, str | None] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Tests that fail without any mutation."""
    sound: set[str] = field(default_factory=set)
    passed: dict[Mutant, str] = field(default_factory=dict)
    """The test up to which a mutant has passed them all, where that is one that fails by itself."""

    def pytest_runtestloop(self, session) -> bool:
        """Try all, several at once."""
        self.session, self.folder = session, tempfile.TemporaryDirectory()
        waiting = list(reversed(self.mutants))
        running = {}
        with self.folder:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    mutant = waiting.pop()
                    pid, out = self.fork(self.items(mutant), mutant)
                    running[pid] = (mutant, out)
                pid, status = os.wait()
                mutant, out = running.pop(pid)
                if self.settled(mutant, out.read_text(), status):
                    death = self.deaths[mutant]
                    print(f"{'killed by ' + death if death else 'SURVIVES'}: {mutant}", flush=True)
                else:
                    waiting.append(mutant)
        return True

    def items(self, mutant: Mutant) -> list:
        """The tests to run, nearest first."""
        rank = {
            item: nearness(item.path.relative_to(ROOT), mutant.path) for item in self.session.items
        }
        chosen = sorted(
            (i for i in self.session.items if not self.near or rank[i] < 4), key=rank.__getitem__
        )
        done = next(
            (n for n, item in enumerate(chosen, 1) if item.nodeid == self.passed.get(mutant)), 0
        )
        return [item for item in chosen[done:] if item.nodeid not in self.broken]

    def fork(self, items: list, mutant: Mutant | None) -> tuple[int, Path]:
        """Run tests in a fork until one fails; its id is then in a file, before that the id of the
        one that runs."""
        out = Path(tempfile.mkstemp(dir=self.folder.name)[1])
        if pid := os.fork():
            return pid, out
        try:
            os._exit(self.run(items, mutant, out))
        finally:
            os._exit(3)

    def run(self, items: list, mutant: Mutant | None, out: Path) -> int:
        from _pytest.runner import runtestprotocol

        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        temporary = self.session.config._tmp_path_factory
        temporary._basetemp, temporary._given_basetemp = None, out.with_suffix(".tests")
        if mutant is not None and not put_in_place(mutant):
            return 2
        for item, following in zip(items, [*items[1:], None], strict=True):
            out.write_text(item.nodeid)
            signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
            if any(
                report.failed for report in runtestprotocol(item, log=False, nextitem=following)
            ):
                return FOUND
        return NOBODY

    def settled(self, mutant: Mutant, test: str, status: int) -> bool:
        """Whether it is known what becomes of a mutant; not where the test that failed fails
        without it, too."""
        code = os.waitstatus_to_exitcode(status)
        if code == 2:
            raise RuntimeError(f"{mutant} is in no function that the tests load")
        if code == NOBODY:
            self.deaths[mutant] = None
            return True
        if code == FOUND and not self.is_sound(test):
            if test not in self.broken:
                print(f"left out, since it fails without any mutation: {test}", flush=True)
            self.broken.add(test)
            self.passed[mutant] = test
            return False
        rank = nearness(Path(test.partition("::")[0]), mutant.path)
        self.deaths[mutant] = GROUPS[rank] + ("" if code == FOUND else f" ({HUNG})")
        return True

    def is_sound(self, test: str) -> bool:
        """Whether a test passes as the code is."""
        if test not in self.sound:
            pid, _ = self.fork([item for item in self.session.items if item.nodeid == test], None)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != NOBODY:
                return False
            self.sound.add(test)
        return True


def collected_tests() -> list[str]:
    """What pytest is asked to collect, without those that are left out."""
    more = [path for paths in MORE_TESTS.values() for path in paths]
    rooms = [f"tests/{Path(room).name}" for room in ROOMS]
    ignored = [f"--ignore-glob=*/{name}" for name in WITHOUT]
    return [*(path for path in (*rooms, *more, *MORE_FIGURES) if (ROOT / path).exists()), *ignored]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument(
        "--near",
        action="store_true",
        help="leave out tests of other rooms: quicker, and more survive",
    )
    parser.add_argument("--list", action="store_true", help="say what would be mutated, and end")
    options = parser.parse_args()
    found = chosen(options.count, options.seed, options.only)
    if options.list:
        print("\n".join(map(str, found)))
        return 0
    begun = time.monotonic()
    os.environ |= {"HYPOTHESIS_PROFILE": "mutants", "PYTHONDONTWRITEBYTECODE": "1"}
    os.chdir(ROOT)
    import pytest

    server = Server(found, options.jobs, options.near)
    options = [
        "-q",
        "-s",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--no-header",
        *collected_tests(),
    ]
    with contextlib.suppress(SystemExit):
        pytest.main(options, plugins=[server])
    if len(server.deaths) < len(found):
        sys.exit("the tests cannot be run")
    deaths = [server.deaths[mutant] for mutant in found]
    dead = sum(death is not None for death in deaths)
    by = ", ".join(f"{n} by {name}" for name, n in Counter(d for d in deaths if d).most_common())
    print(
        f"{dead} of {len(found)} die ({dead / len(found):.0%}): {by}. {time.monotonic() - begun:.0f} s"
    )
    return 0 if dead >= BAR * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
