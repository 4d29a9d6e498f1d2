"""What the program does with a file of each kind: read it, analyse it, draw the result; nothing may break."""

from __future__ import annotations

import io
import json
import zlib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.ingest import load
from traceanalyzer.report.table_entries import BY_COMMAND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run


ROOT = Path(__file__).resolve().parents[2]
ANALYSED_OF = 6
"""Reading a file beside a recording takes a few ms, analysing and drawing fifty: one in so many is analysed as well."""
FORMS = ("terminal", "markdown", "json", "html", "svg")
PATH, OUT, LATEST = "PATH", "OUT", "PATH#latest"
COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("analyze", PATH, "--format", form) for form in (*FORMS[:4], "json")),
    ("analyze", PATH, "--full", "--redact", "--redact-name", "a.*n"),
    ("analyze", PATH, "--top", "3", "--format", "markdown", "--max-chars", "5000"),
    ("analyze", PATH, "-o", f"{OUT}.svg"),
    ("analyze", PATH, "--store", f"{OUT}.db", "--tag", "a=b", "-o", f"{OUT}.html"),
    ("analyze", PATH, "--samples", "64", "--tokens", "4096", "--flops", "4e12", "--step", "1"),
    *((name, PATH, "--format", form) for name in BY_COMMAND for form in ("terminal", "csv", "json")),
    ("gaps", PATH, "--redact", "--min-us", "1"),
    ("overlay", PATH),
    ("overlay", PATH, "--redact", "-o", f"{OUT}.json"),
    ("whatif", PATH, "--full"),
    ("whatif", PATH, "--speedup", "aten=2", "--bucket-mb", "1", "--format", "json"),
    ("compare", PATH, PATH, "--format", "json"),
    ("compare", PATH, "BESIDE", "--format", "markdown"),
    ("compare", "BESIDE", PATH),
    ("check", PATH, "--max", "gpu_idle_share=0.5", "--min", "step_time_ms.mean=0.1"),
    ("check", PATH, "--baseline", "BESIDE", "--max", "step_time_ms.mean=+5%", "--format", "json"),
    ("attach", PATH, "--issue", "o/r#1"),
)
"""What is done with a recording, or with a saved report where that is one."""


def use_recording(path: Path) -> None:
    """As one of the commands, chosen by the file's content."""
    number = zlib.crc32(path.read_bytes())
    run(COMMANDS[number % len(COMMANDS)], path)


def run(command: Sequence[str], path: Path) -> None:
    """A command line in this process. Raises what it raises, and AssertionError where what it prints is unsound."""
    from traceanalyzer.cli import cli

    beside = path.parent / "beside.json"
    if not beside.exists():
        beside.write_bytes(_recording())
    for old in path.parent.glob("out.*"):
        old.unlink()
    given = {PATH: str(path), LATEST: f"{path}#latest", "BESIDE": str(beside)}
    words = [given.get(word, word.replace(OUT, str(path.parent / "out"))) for word in command]
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        try:
            cli.main([*words, "--no-cache"] if command[0] in CACHED else words, standalone_mode=False)
        except SystemExit as left:
            if left.code not in (None, 0, 3):
                raise RuntimeError(f"exit status {left.code}") from left
        except click.ClickException as error:
            raise TraceAnalyzerError(error.format_message()) from error
    if "json" in command:
        _is_sound(json.loads(printed.getvalue()))
    assert "Traceback" not in said.getvalue()


CACHED = ("analyze", *BY_COMMAND, "overlay", "whatif", "compare", "hang")


def _is_sound(value: Any) -> None:
    """A budget adds up to its step, and no figure is out of all reason."""
    metrics = value.get("metrics") if isinstance(value, dict) else None
    if isinstance(metrics, dict) and metrics.get("budget_ms") and metrics.get("step_time_ms"):
        parts, mean = sum(metrics["budget_ms"].values()), metrics["step_time_ms"]["mean"]
        assert abs(parts - mean) <= 1e-6 * max(mean, 1e-3) + 1e-4, (parts, mean)
        assert all(part >= -1e-9 for part in metrics["budget_ms"].values())


def use_dump(path: Path) -> None:
    """As `hang`, of a folder in which other ranks' dumps are sound."""
    folder = path.parent / "dumps"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    data = path.read_bytes()
    (folder / "rank_0.pickle").write_bytes(data)
    number = zlib.crc32(data)
    for rank in (1, 2)[: number % 3]:
        (folder / f"rank_{rank}").write_bytes((ROOT / "tests" / "data" / "hang" / f"rank_{rank}.json").read_bytes())
    form = ("terminal", "markdown", "json", "html")[number % 4]
    run(("hang", str(folder), "--format", form, *(("--redact",) if number % 5 == 0 else ())), path)


def _drawn_report(run: Run, number: int) -> Report:
    from traceanalyzer.report.build import build_report

    report = build_report(run)
    _draw(report, number)
    return report


def _draw(report: Report, number: int) -> None:
    from traceanalyzer.report.html import render_html
    from traceanalyzer.report.json import render_json
    from traceanalyzer.report.markdown.issue import render_markdown
    from traceanalyzer.report.privacy.redact import redact
    from traceanalyzer.report.terminal.screen import render_terminal

    form = number % 11
    if form == 0:
        render_html(report, None)
    elif form < 4:
        render_markdown(report)
    elif form < 6:
        render_terminal(redact(report), 100, False)
    else:
        render_json(report)


def use_environment(path: Path) -> None:
    """As it is read beside a recording."""
    from traceanalyzer.ingest.conditions import environment_conditions, measured_ceilings
    from traceanalyzer.ingest.side_files import json_object

    values = json_object(path)
    if values is not None:
        environment_conditions(values)
        measured_ceilings(values)
        if zlib.crc32(path.read_bytes()) % 16 == 0:
            _beside(path, "environment.json")


def use_unprofiled(path: Path) -> None:
    """As it is read beside a recording: it moves every figure."""
    _beside(path, "unprofiled.rank0.json")


def use_samples(path: Path) -> None:
    """As it is read beside a recording."""
    from traceanalyzer.ingest.conditions import sampled_conditions
    from traceanalyzer.ingest.side_files import json_lines

    sampled_conditions(json_lines(path))
    if zlib.crc32(path.read_bytes()) % 16 == 0:
        _beside(path, "nvml.rank0.jsonl")


def use_snapshot(path: Path) -> None:
    """As `memory`, or as it is read beside a recording."""
    number = zlib.crc32(path.read_bytes())
    if number % ANALYSED_OF == 0:
        _beside(path, "memory.rank0.pickle", draw=False)
        return
    form = ("html", "markdown", "terminal", "json")[number % 4]
    other = (("--other", PATH), ("BESIDE",), (), ("--redact",))[number // 4 % 4]
    run(("memory", PATH, *other, "--format", form), path)


def use_compile_log(path: Path) -> None:
    """As `compile` of a log alone, or with a trace."""
    number = zlib.crc32(path.read_bytes())
    form = ("html", "markdown", "terminal", "json")[number % 4]
    run(("compile", PATH, *(("BESIDE",) if number % 3 == 0 else ()), "--format", form), path)


@cache
def _recording() -> bytes:
    from tests.fuzz.kinds import KINDS
    from tests.fuzz.mutate import as_json

    return as_json(KINDS["kineto"].seeds()[0])


def _beside(path: Path, name: str, *, draw: bool = True) -> None:
    folder = path.parent / "capture"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / name).write_bytes(path.read_bytes())
    (folder / "trace.rank0.json").write_bytes(_recording())
    run = load([folder])
    number = zlib.crc32(path.read_bytes())
    if draw and number % 4 == 0:
        _drawn_report(run, number)


def use_ncu(path: Path) -> None:
    """As `--ncu`."""
    from traceanalyzer.diagnosis.selection import Knowledge
    from traceanalyzer.ingest.ncu import read_counters
    from traceanalyzer.report.build import build_report

    counters = read_counters(path)
    if zlib.crc32(path.read_bytes()) % 16 == 0:
        recording = path.parent / "beside-ncu.json"
        recording.write_bytes(_recording())
        build_report(load([recording]), knowledge=Knowledge(counters=tuple(counters)))


def use_report(path: Path) -> None:
    """As `compare`, `check` and `attach` do with a saved report."""
    number = zlib.crc32(path.read_bytes())
    of_reports = [command for command in COMMANDS if command[0] in ("compare", "check", "attach")]
    if number % 2:
        run(of_reports[number // 2 % len(of_reports)], path)
        return
    from traceanalyzer.report.read import report_from_json

    _draw(report_from_json(path.read_bytes()), number // 2)


def use_history(path: Path) -> None:
    """As `history`, and `attach` and `compare` of its last run."""
    number = zlib.crc32(path.read_bytes())
    run(OF_HISTORIES[number % len(OF_HISTORIES)], path)


OF_HISTORIES = (
    ("history", PATH),
    ("history", PATH, "--metric", "step_time_ms", "--format", "json"),
    ("history", PATH, "--last", "2", "--format", "csv"),
    ("attach", LATEST, "--issue", "o/r#1"),
    ("compare", LATEST, LATEST),
    ("check", LATEST, "--max", "gpu_idle_share=1"),
)
