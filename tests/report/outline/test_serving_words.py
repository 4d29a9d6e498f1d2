"""The report of a server speaks of serving."""

import re

from tests.analyzed import reported
from tests.recorded import ROOT
from traceanalyzer.report.outline.gains import example_command, no_advice

DECODE = ROOT / "tests" / "data" / "formats" / "mi300x_sglang_decode.json.gz"
OF_TRAINING = re.compile(r"\btrain|DataLoader|optimizer|gradient|\bloss\b|epoch", re.IGNORECASE)


def test_a_servers_report_has_no_word_of_training():
    report = reported(DECODE)
    assert report.tables["iterations"]
    assert report.metrics.program is None or report.metrics.program.mode != "training"
    texts = [report.summary.headline, no_advice(report), example_command(report), *report.notes]
    texts += [one.title for one in report.findings]
    texts += [one.action for one in report.recommendations]
    assert [text for text in texts if OF_TRAINING.search(text)] == []
