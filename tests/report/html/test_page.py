"""The page as a file: self-contained, harmless, bounded, complete. What it shows is seen in
`test_browser`."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from tests.report.html.conftest import SAMPLES, report_and_details
from tests.report.html.timelines import timeline
from tests.report.privacy.secret_report import OWN_KERNEL, PATTERNS, SECRETS, secret
from tests.report.reports import HOSTILE, empty, full, hostile
from traceanalyzer.report.document import Document, Section, TextTable
from traceanalyzer.report.html import Details, frame, render_html
from traceanalyzer.report.html import sections as module
from traceanalyzer.report.html.frame import POLICY, heading
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.outline import step_facts
from traceanalyzer.report.printed import Printed
from traceanalyzer.report.privacy.redact import redact_with
from traceanalyzer.report.timeline.distributions import CollectiveMessage
from traceanalyzer.report.timeline.icicle import IcicleBox
from traceanalyzer.report.timeline.lanes import Lane

CONTROLS = ("a", "button", "select", "summary")


class Reader(HTMLParser):
    """What a browser finds: elements, ids, links, text outside scripts, controls without a name."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.ids = []
        self.hrefs = []
        self.loads = []
        self.open = []
        self.words = []
        self.regions = []
        self.nameless = []
        self.controls = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.hrefs += [given["href"]] if "href" in given else []
        self.loads += [given[name] for name in ("src", "action", "srcset") if name in given]
        self.loads += [name for name in given if name.startswith("on")]
        label = given.get("aria-label", "")
        if tag == "section" or given.get("role") == "region":
            self.regions.append(label or given["aria-labelledby"])
        if tag in CONTROLS:
            self.controls.append(label)
        if tag == "input" and not label and "label" not in self.open:
            self.nameless.append(given)
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in CONTROLS and not self.controls.pop().strip():
            self.nameless.append(tag)

    def handle_data(self, data):
        self.controls = [name + data for name in self.controls]
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


REPORTS = {"full": full(), "empty": empty(), "hostile": hostile()}


@pytest.fixture(scope="module", params=REPORTS)
def report(request):
    return REPORTS[request.param]


def test_every_element_is_closed_and_every_id_is_the_only_one(report):
    page = Reader(render_html(report))
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_the_answer_is_the_only_heading_of_the_first_rank_and_no_rank_is_left_out(report):
    text = render_html(report, Details([timeline()]))
    page = Reader(text)
    ranks = [int(name[1]) for name in page.elements if re.fullmatch("h[1-6]", name)]
    assert ranks[0] == 1
    assert ranks.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(ranks))
    assert heading(report.summary.headline) in text


def test_the_heading_is_a_sentence():
    made = heading(
        "Two causes in each 1.39 ms step: syncs (GPU idle 35%) and a.b(c. d). Rank 1 holds up. The rest"
    )
    assert made == (
        "<h1>Two causes in each 1.39 ms step: syncs (GPU idle 35%) and a.b(c. d).</h1>"
        '<p class="headline">Rank 1 holds up. The rest</p>'
    )


def test_every_control_has_a_name_and_labels_tell_neighbours_apart(report):
    page = Reader(render_html(report, Details([timeline()])))
    assert page.nameless == []
    assert len(page.regions) == len(set(page.regions))


def test_nothing_is_loaded_and_links_stay_within_the_page(report):
    page = Reader(render_html(report))
    assert page.loads == []
    assert all(href.startswith("#") for href in page.hrefs)
    assert {href[1:] for href in page.hrefs if not href.startswith("#at=")} <= set(page.ids)


def test_the_policy_forbids_every_request(report):
    assert f'content="{Markup(POLICY.replace(chr(39), "&#x27;"))}"' in render_html(report)
    assert "default-src 'none'" in POLICY
    assert "http" not in POLICY


def test_hostile_names_add_no_element():
    page = Reader(render_html(hostile()))
    assert page.elements.count("script") == Reader(render_html(full())).elements.count("script")
    assert not {"img", "iframe", "object", "link"} & set(page.elements)
    assert page.elements.count("h1") == 1


@pytest.mark.parametrize(
    "text", [t for t in HOSTILE if t.strip() and t.isprintable() and len(t) < 60]
)
def test_hostile_names_are_readable_as_they_are(text):
    assert text in Reader(render_html(hostile())).text


def test_the_answer_comes_first():
    text = Reader(render_html(full())).text
    order = [
        "sync-bound",
        "clear",
        "15.9 ms",
        "What to change",
        "1.69x",
        "Metrics",
        "Findings",
        "Recommendations",
        "How to reproduce",
    ]
    place = text.index("Skip to the summary")
    for words in order:
        place = text.index(words, place)


def test_every_table_of_the_report_is_there():
    report = full()
    text = Reader(render_html(report)).text
    for name, rows in report.tables.items():
        assert not rows or step_facts.table_title(name) in text, name


def test_what_a_log_cannot_tell_is_named_once():
    text = render_html(*report_and_details(SAMPLES / "timing_input_bound"))
    begin = text.index('id="step"')
    metrics = text[begin : text.index("<details", begin)]
    assert "n/a" not in text[text.index('id="metrics"') : text.index('id="findings"')] + metrics
    missing = Reader(metrics[metrics.rindex("<p") :]).text
    assert missing.startswith("Not known from this recording:")
    assert missing.count("kernels per step") == missing.count("MFU") == 1


def test_a_table_of_a_later_version_is_there():
    assert "Odd" in Reader(render_html(hostile())).text


def test_every_figure_of_the_step_has_its_definition():
    text = render_html(full())
    for f in dataclasses.fields(full().metrics.budget_ms):
        assert Markup(f.metadata["definition"]) in text


def test_of_a_page_that_is_too_long_rows_are_left_out_and_counted(monkeypatch):
    report = full()
    rows = [
        dataclasses.replace(report.tables["gaps"][0], detail=f"{i} " + "x" * 190)
        for i in range(300)
    ]
    report = dataclasses.replace(report, tables=report.tables | {"gaps": rows})
    assert "rows left out" not in render_html(report)
    monkeypatch.setattr(module, "MAX_BYTES", 180_000)
    text = render_html(report)
    assert len(text) < 180_000
    assert re.search(
        r"(200|270|290) more rows left out; `traceanalyzer show gaps` prints all", text
    )


def test_no_script_ends_before_its_end_and_the_page_is_small():
    text = render_html(full(), Details([timeline()]))
    assert len(text.encode()) < 300_000
    assert text.count("</script>") == Reader(text).elements.count("script")


def test_nothing_hidden_is_left_on_the_page(monkeypatch):
    monkeypatch.setattr(frame, "asset", lambda name: Markup("/* as it is */"))
    where = [OWN_KERNEL, "SecretModel", "at /home/alice/projects/train.py(118): step"]
    hidden = dataclasses.replace(
        timeline(names=where, detail=where), lanes=[Lane("thread 4242 alice@gpu-node-07")]
    )
    hidden = dataclasses.replace(hidden, facts=[["in SecretModel", where[2]]], title="alice")
    boxes = [
        IcicleBox(name, level, 0.0, 1.0, "copy" if level == 2 else "")
        for level, name in enumerate(("SecretModel", where[2], OWN_KERNEL))
    ]
    sent = [CollectiveMessage("all_reduce", 1, 2, "SecretModel", 1000, 7, 0, 1000, 500)]
    beside = Details([hidden], boxes=boxes, idle_boxes=boxes, messages=sent)
    report, details = redact_with(secret(), beside, PATTERNS)
    assert details.timeline.names[0] == report.tables["kernels"][0].name == "kernel-1"
    text = render_html(report, details).lower()
    assert all(f'id="chart-{name}"' in text for name in ("icicle", "idle-icicle"))
    assert details.messages[0].group not in (None, "SecretModel")
    _, colourless = redact_with(secret(), beside, [re.compile("copy|all_reduce")])
    assert colourless.boxes[2].sort == "copy"
    assert colourless.messages[0].kind == "all_reduce"
    assert [s for s in SECRETS if s.lower() in text and s != "4242"] == []


def test_a_title_is_seen_once():
    """A table of the section's title has it for screen readers; one of another title is titled."""
    rows = [("a", "1")]
    document = Document(
        "Page",
        [
            Section("Summary", ["x"]),
            Section("Lines", [TextTable(("name", "size"), (False, True), rows)]),
            Section("Other", [TextTable(("name", "size"), (False, True), rows, "Peaks")]),
        ],
    )
    page = Printed(document).html()
    assert '<caption class="said">Lines</caption>' in page
    assert "<caption>Peaks</caption>" in page


def test_the_first_advice_is_whole_on_top_as_on_the_first_screen():
    """All of it stands again where it is told how it was estimated."""
    report, details = report_and_details(SAMPLES / "sync_bound")
    text = render_html(report, details)
    reader = Reader(text)
    words = " ".join(" ".join(reader.words).split())
    first = report.recommendations[0]
    assert words.count(" ".join(first.action.split())) == 2
    assert "#change-1" in reader.hrefs
    assert reader.ids.count("change-1") == 1
