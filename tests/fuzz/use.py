"""What the program does with a file of each kind: read it, analyse it, draw the result; nothing may break."""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

from traceanalyzer.ingest import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report.model import Report
    from traceanalyzer.trace import Run


ANALYSED_OF = 6
"""Reading takes a few ms, analysing and drawing fifty: one in so many inputs that can be read is analysed as well."""


def use_recording(path: Path) -> None:
    """As `analyze`, and a table or what-if besides, drawn in a form that the file's content chooses."""
    number = zlib.crc32(path.read_bytes())
    run = load([path])
    if number % ANALYSED_OF:
        return
    number //= ANALYSED_OF
    report = _drawn_report(run, number)
    if number % 4 == 0 and report.inputs[0].kind != "timing_log":
        _table(run, number >> 2)


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


def _table(run: Run, number: int) -> None:
    from traceanalyzer.diagnosis.predictions import predictions
    from traceanalyzer.export.perfetto.overlay import build_overlay
    from traceanalyzer.export.perfetto.overlay_json import render_overlay
    from traceanalyzer.report.printed import Rows
    from traceanalyzer.report.table_entries import TABLES
    from traceanalyzer.report.tables import table

    what = number % (len(TABLES) + 2)
    if what == len(TABLES) + 1:
        render_overlay(build_overlay(run))
    elif what == len(TABLES):
        predictions(run, bucket_mb=[1.0])
    else:
        made = TABLES[what]
        drawn = Rows(made.name, table(run, made.name), made.row)
        drawn.csv()
        drawn.terminal(100, False)


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
    from traceanalyzer.ingest.memory.snapshot import read_snapshot
    from traceanalyzer.report.memory.build import memory_report
    from traceanalyzer.report.memory.document import memory_document

    number = zlib.crc32(path.read_bytes())
    if number % ANALYSED_OF == 0:
        _beside(path, "memory.rank0.pickle", draw=False)
        return
    page = memory_document(memory_report(read_snapshot(path)))
    (page.html, page.markdown, lambda: page.terminal(100, False))[number % 3]()


def use_compile_log(path: Path) -> None:
    """As `compile` of a log alone, or with a trace."""
    from traceanalyzer.ingest.torch_log import read_logs
    from traceanalyzer.replay.compile.steps import Stopwatch
    from traceanalyzer.report.compile.build import compile_report
    from traceanalyzer.report.compile.document import compile_document

    logs = read_logs(path)
    number = zlib.crc32(path.read_bytes())
    if number % ANALYSED_OF == 0:
        recording = path.parent / "beside-log.json"
        recording.write_bytes(_recording())
        run = load([recording])
    else:
        run = None
    page = compile_document(compile_report(logs, run, Stopwatch(None, None)))
    (page.html, page.markdown, page.json, lambda: page.terminal(100, False))[number % 4]()


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
    from tests.report.reports import full
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.document import ComparisonPage
    from traceanalyzer.comparison.reference import report_named

    report = report_named(str(path), lambda paths: load(paths))
    number = zlib.crc32(path.read_bytes())
    _draw(report, number)
    comparison = (
        compare_reports(full(), report, ("a", "b")) if number % 2 else compare_reports(report, full(), ("a", "b"))
    )
    page = ComparisonPage(comparison)
    (page.csv, page.markdown, page.terminal)[number % 3]()


def use_history(path: Path) -> None:
    """As `history`, and `attach` of its last run."""
    from traceanalyzer.history.database import reading
    from traceanalyzer.history.runs import metric_names, metric_series, stored_runs
    from traceanalyzer.history.stored import stored_report

    with reading(path) as db:
        runs = stored_runs(db)
        metric_names(db)
        metric_series(db, "step_time_ms", runs)
    stored_report(f"{path}#latest")
