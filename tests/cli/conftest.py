"""Commands without the machinery behind them: what they read and compute is written by hand."""

from __future__ import annotations

import pytest

import traceanalyzer.diagnosis.question
import traceanalyzer.ingest
import traceanalyzer.report.build
import traceanalyzer.report.kept_tables  # it must not first be loaded while functions are replaced
import traceanalyzer.report.tables
from tests.report.reports import full, tables
from traceanalyzer.analysis.serving.figures import ServingFigure
from traceanalyzer.analysis.serving.rows import IterationRow
from traceanalyzer.cli import main
from traceanalyzer.trace import Failure, Run


class Asked:
    """What the commands asked for."""

    def __init__(self):
        self.paths: list[tuple[str, ...]] = []
        self.narrow: dict[str, object] = {}
        self.failures: tuple[Failure, ...] = ()
        self.rows = {**tables(), "comm": tables()["collectives"], "path": tables()["critical_path"]}
        work = (
            0,
            0.0,
            "decode",
            8,
            0,
            8,
            900,
            0.5,
            2.1,
            2.0,
            2.4,
            0.3,
            0.2,
            "scheduling",
            "replayed",
            534,
            0,
            1,
            None,
        )
        self.rows["serving"] = [ServingFigure("ttft_ms.median", 310.0, "ms")]
        self.rows["iterations"] = [IterationRow(*work), IterationRow(1, *work[1:])]


@pytest.fixture
def asked(monkeypatch):
    """The pipeline replaced by hand-made rows and a hand-made report."""
    asked = Asked()

    def load(paths, *, progress=None, pattern=None):
        asked.paths.append(tuple(paths))
        progress(1, 2)
        return Run((), asked.failures)

    def measured(one):
        asked.narrow |= {"selection": one.selection, "knowledge": one.knowledge}

    def rows_of(of, name, wanted):
        asked.narrow.setdefault("wanted", wanted)
        return asked.rows[name]

    monkeypatch.setattr(traceanalyzer.ingest, "load", load)
    # not the function: modules that are first loaded meanwhile would keep what it was replaced by
    monkeypatch.setattr(traceanalyzer.diagnosis.question.Query, "measured", property(measured))
    monkeypatch.setattr(traceanalyzer.report.build, "report_of", lambda *_: full())
    monkeypatch.setattr(traceanalyzer.report.build, "build_report", lambda *_: full())
    monkeypatch.setattr(traceanalyzer.report.tables, "measured_rows", rows_of)
    return asked


@pytest.fixture
def run(capsys):
    """Runs a command line; gives exit status, standard output and standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return left.value.code, captured.out, captured.err

    return run
