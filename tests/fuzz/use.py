"""Command lines of the program for each kind of input, run in this process; nothing may break."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tests.fuzz import model
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.report.table_entries import BY_COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

PATH = "PATH"
FOLDER = "FOLDER"
OUT = "OUT"
READ = "read"
"""In place of a command: what all of them do first, held to what a model of a recording promises."""
LATEST = "PATH#latest"
"""The case's file, the folder that it lies in, the beginning of the names of what is written; the
case's last run."""
WITHIN = "FOLDER/"
"""Before the name of another file of that folder."""
BESIDE = "BESIDE/"
"""Before the name of a sound file of another kind."""
SERVER = f"{BESIDE}server.json"
SAVED = f"{BESIDE}report.json"
FORMS = ("terminal", "markdown", "json", "html")
Command = tuple[str, ...]


def _each(*words: str, forms: Sequence[str] = FORMS) -> tuple[Command, ...]:
    return tuple((*words, "--format", form) for form in forms)


REPORTS: tuple[Command, ...] = (
    *_each("compare", PATH, PATH, forms=("json",)),
    *_each("compare", PATH, SAVED, forms=FORMS[1:]),
    ("compare", SERVER, PATH),
    *_each("compare", SAVED, PATH, SAVED),
    ("check", PATH, "--max", "gpu_idle_share=0.5", "--min", "step_time_ms.mean=0.1"),
    ("check", PATH, "--baseline", SAVED, "--max", "step_time_ms.mean=+5%", "--format", "json"),
    ("check", PATH, "--policy", f"{BESIDE}policy.toml", "--recorded", "--format", "junit"),
    ("attach", PATH, "--issue", "o/r#1"),
    (
        "attach",
        PATH,
        "--compare",
        SAVED,
        "--issue",
        "o/r#1",
        "--picture",
        f"{OUT}.svg",
        "--name",
        "a",
    ),
)
"""What is done with a recording as with a saved report."""
RECORDINGS: tuple[Command, ...] = (
    (READ, PATH),
    *_each("analyze", PATH),
    *_each("analyze", PATH, forms=("json",)),
    ("analyze", PATH, "--full", "--redact", "--redact-name", "a.*n"),
    ("analyze", PATH, "--top", "3", "--format", "markdown", "--max-chars", "5000"),
    ("analyze", PATH, "-o", f"{OUT}.svg"),
    ("analyze", PATH, "--store", f"{OUT}.db", "--tag", "a=b", "-o", f"{OUT}.html"),
    ("analyze", PATH, "--samples", "64", "--tokens", "4096", "--flops", "4e12", "--step", "1"),
    (
        "analyze",
        PATH,
        "--ncu",
        f"{BESIDE}ncu.csv",
        "--hardware",
        f"{BESIDE}gpu.toml",
        "--format",
        "json",
    ),
    *(one for name in BY_COMMAND for one in _each(name, PATH, forms=("terminal", "csv", "json"))),
    ("gaps", PATH, "--redact", "--min-us", "1"),
    *_each("iterations", PATH, f"{BESIDE}server.log", forms=("json", "csv")),
    ("overlay", PATH),
    ("overlay", PATH, "--redact", "-o", f"{OUT}.json"),
    ("whatif", PATH, "--full"),
    ("whatif", PATH, "--speedup", "aten=2", "--bucket-mb", "1", "--format", "json"),
    *REPORTS,
    ("export", PATH, "-o", f"{OUT}.sqlite"),
    ("export", PATH, "-o", f"{OUT}.parquet"),
    ("digest", PATH, SERVER, "-o", f"{OUT}.digests"),
    ("fleet", PATH, SERVER),
    ("reproduce", PATH, "aten::mm"),
)
TRACES = (
    *RECORDINGS,
    ("overlay", PATH, "--merge", "-o", f"{OUT}.json.gz"),
    *_each("iterations", SERVER, PATH, forms=("json",)),
    *_each("ops", PATH, SERVER, forms=("json",)),
)
"""With the graphs' capture in another one."""
DAYS = _each("fleet", PATH, "--timing", f"{OUT}.days", "--run", "a")
LOGS = (
    *RECORDINGS,
    *DAYS,
    *DAYS,
    *_each("analyze", PATH, "--pattern", r"(?P<step>\d+).*?(?P<iter_ms>[\d.]+)"),
)
RANKS = (
    (READ, FOLDER),
    *_each("analyze", FOLDER),
    ("analyze", FOLDER, "--redact", "--rank", "0"),
    *_each("comm", FOLDER, forms=("json", "csv")),
    ("whatif", FOLDER, "--full"),
    ("overlay", FOLDER),
    ("export", FOLDER, "-o", f"{OUT}.sqlite"),
    ("digest", FOLDER, "-o", f"{OUT}.digests"),
    *_each("fleet", FOLDER),
    *_each("compare", FOLDER, FOLDER),
)
REPLAYS = (
    (READ, FOLDER),
    *_each("analyze", f"{WITHIN}decode.json"),
    *_each("ops", f"{WITHIN}decode.json", PATH, forms=("json", "csv")),
    *_each("kernels", f"{WITHIN}decode.json", forms=("json",)),
    ("overlay", f"{WITHIN}decode.json", PATH),
)
"""What replays CUDA graphs, beside a recording of their capture."""
SAVED_REPORTS = ((READ, PATH, "report"), *REPORTS)
OPERATIONS = ((READ, PATH, "operations"), *_each("fleet", PATH))
STORES = _each("fleet", FOLDER)
DIGESTS = ((READ, PATH, "digest"), *STORES, *_each("compare", FOLDER, FOLDER))
HANGS = (*_each("hang", FOLDER), ("hang", FOLDER, "--redact", "--world-size", "4"))
CAPTURES = (
    (READ, FOLDER),
    *_each("analyze", FOLDER),
    *_each("whatif", FOLDER, forms=("json",)),
    ("analyze", FOLDER, "--redact"),
)
SNAPSHOTS = (
    (READ, PATH),
    *_each("memory", PATH),
    *_each("memory", PATH, "--other", PATH),
    *_each("memory", PATH, SERVER),
    ("memory", PATH, "--redact"),
    *_each("compare", PATH, PATH, forms=("json", "markdown")),
    *_each("analyze", PATH, forms=("json", "html")),
    *_each("analyze", SERVER, PATH, forms=("json", "html")),
)
COMPILED = (
    (READ, PATH),
    *_each("compile", PATH),
    *_each("compile", PATH, SERVER),
    ("compile", PATH, SERVER, "--overlay", f"{OUT}.json"),
    *_each("compare", PATH, PATH, forms=("json", "markdown")),
    *_each("analyze", SERVER, PATH, forms=("json", "html")),
)
HISTORIES = (
    ("history", PATH),
    ("history", PATH, "--metrics"),
    *_each("history", PATH, "--metric", "step_time_ms", forms=(*FORMS, "csv")),
    ("history", PATH, "--metric", "step_time_ms.mean", "-o", f"{OUT}.html"),
    ("history", PATH, "--last", "2", "--tag", "n=1", "--since", "7d", "--format", "csv"),
    ("history", PATH, "-o", f"{OUT}.html"),
    ("analyze", SERVER, "--store", PATH, "--format", "json"),
    ("attach", LATEST, "--issue", "o/r#1"),
    ("compare", LATEST, LATEST),
    ("check", LATEST, "--max", "gpu_idle_share=1"),
)
JOURNALED = (
    ("history", f"{WITHIN}a.db"),
    ("compare", f"{WITHIN}a.db#latest", SERVER),
    ("check", SERVER, "--baseline", f"{WITHIN}a.db#latest", "--max", "gpu_idle_share=1"),
    ("analyze", SERVER, "--store", f"{WITHIN}a.db", "--format", "json"),
)
"""With a journal or a log beside the history, which nobody of ours wrote."""
COUNTED = (
    *_each("analyze", SERVER, "--ncu", PATH),
    *_each("kernels", SERVER, "--ncu", PATH, forms=("json",)),
)
HARDWARE = (
    *_each("analyze", SERVER, "--hardware", PATH),
    *_each("kernels", SERVER, "--hardware", PATH, forms=("json",)),
)
CLASSES = (
    *_each("analyze", SERVER, "--kernel-classes", PATH),
    *_each("kernels", SERVER, "--kernel-classes", PATH, forms=("json",)),
)
POLICIES = (
    ("check", SAVED, "--policy", PATH),
    ("check", SAVED, "--policy", PATH, "--format", "json"),
    ("check", SERVER, "--policy", PATH),
)
QUESTIONS = (("mcp",),)
CHEAP = frozenset((*BY_COMMAND, "hang", "history", "memory", "compile", "mcp"))
"""Commands that measure little beside what they show."""
COSTS = ("read", "table", "report")
PARQUET = "pyarrow"
NEEDED = {"digest": PARQUET, "fleet": PARQUET, "--timing": "duckdb", f"{OUT}.parquet": PARQUET}
"""Words of commands that need a module which may not be installed."""


def cost(command: Command) -> str:
    """One of COSTS: whether it only reads, shows a table, or measures everything."""
    if command[0] == READ:
        return COSTS[0]
    return COSTS[1] if command[0] in CHEAP else COSTS[2]


@cache
def lacking(command: Command) -> str:
    """The module without which the command says only that; nothing where it is installed."""
    needed = (NEEDED[word] for word in command if word in NEEDED)
    return next((name for name in needed if find_spec(name) is None), "")


def run(command: Command, path: Path, folder: Path, beside: Path, out: Path) -> None:
    """A command line in this process. Raises what it raises, and AssertionError where what it
    prints is unsound."""
    from traceanalyzer.cli import cli

    given = {PATH: str(path), LATEST: f"{path}#latest", FOLDER: str(folder)}
    words = [
        given.get(
            word,
            word.replace(BESIDE, f"{beside}/").replace(WITHIN, f"{folder}/").replace(OUT, str(out)),
        )
        for word in command
    ]
    if words[0] == READ:
        model.READERS[words[2] if len(words) > 2 else "recording"](Path(words[1]))
        return
    for old in out.parent.glob(f"{out.name}.*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    if words == ["mcp"]:
        _ask(path, beside)
        return
    printed = io.StringIO()
    warned = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(warned):
        try:
            cli.main([*words, *_alone(words[0])], standalone_mode=False)
        except SystemExit as left:
            if left.code not in (None, 0, 3):
                raise RuntimeError(f"exit status {left.code}") from left
        except click.ClickException as error:
            raise TraceAnalyzerError(error.format_message()) from error
    if command[-1] == "json":
        _is_sound(json.loads(printed.getvalue()))
    assert "Traceback" not in warned.getvalue()


@cache
def _alone(command: str) -> tuple[str, ...]:
    """Options for what keeps nothing and starts no process, where the command has them."""
    from traceanalyzer.cli import cli

    found = cli.get_command(click.Context(cli), command)
    known = {option for parameter in found.params for option in parameter.opts} if found else ()
    return (
        *(("--no-cache",) if "--no-cache" in known else ()),
        *(("--jobs", "1") if "--jobs" in known else ()),
    )


def _is_sound(value: Any) -> None:
    """A budget adds up to its step, and no figure is out of all reason."""
    metrics = value.get("metrics") if isinstance(value, dict) else None
    if isinstance(metrics, dict) and metrics.get("budget_ms") and metrics.get("step_time_ms"):
        parts = sum(metrics["budget_ms"].values())
        mean = metrics["step_time_ms"]["mean"]
        assert abs(parts - mean) <= 1e-6 * max(mean, 1e-3) + 1e-4, (parts, mean)
        assert all(part >= -1e-9 for part in metrics["budget_ms"].values())


def _ask(path: Path, beside: Path) -> None:
    """A question of an agent, as the SDK passes it on."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        asked = json.loads(path.read_bytes().replace(BESIDE.encode(), f"{beside}/".encode()))
        verb = str(asked["verb"])
        arguments = dict(asked["arguments"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TraceAnalyzerError("no question") from error
    try:
        asyncio.run(_server().call_tool(verb, arguments))
    except ToolError as error:
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        told = any(isinstance(one, TraceAnalyzerError | OSError | ValueError) for one in causes)
        if told or isinstance(causes[-1], ToolError):
            raise TraceAnalyzerError(str(error)) from error
        raise


@cache
def _server() -> Any:
    from traceanalyzer.agent.server import make_server
    from traceanalyzer.agent.sources import Sources

    return make_server(Sources())
