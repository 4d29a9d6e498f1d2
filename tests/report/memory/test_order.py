"""The order of a report on memory."""

from __future__ import annotations

from tests.recorded import ROOT
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.document import memory_document

LEAK = ROOT / "tests" / "data" / "memory" / "oom_leak.snapshot.pickle.gz"


def test_figures_findings_and_advice_follow_each_other() -> None:
    printed = memory_document(memory_report(read_snapshot(LEAK)))
    lines = printed.terminal(120).splitlines()
    titles = ("Summary", "What is allocated at the peak", "Findings", "Recommendations")
    found = [lines.index(title) for title in titles]
    assert found == sorted(found)
