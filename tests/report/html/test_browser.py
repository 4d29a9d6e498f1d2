"""What the page shows and does, seen in Chromium: not its mark-up."""

from __future__ import annotations

import dataclasses
import gzip
from contextlib import contextmanager

import pytest

from tests.kineto_builder import KinetoTrace
from tests.report.html.conftest import SAMPLES, report_and_details
from tests.report.reports import empty, full, hostile
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.report.html import render_html
from traceanalyzer.report.timeline.lanes import Category

RANK = RankRow(0, 0, 10.0, 10.0, 6.0, 3.0, 1.0, 2.0, 1.0, False)
SEEN = """(element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
})"""


@pytest.fixture(scope="module")
def shared(browser, sync_page):
    """One page for the tests that leave it as it was, or do not mind: opening one takes seconds."""
    page = browser.open(sync_page)
    yield page
    page.close()


@pytest.fixture
def page(shared, sync_page):
    """It, scrolled to its top; whatever a test does there, nothing may be complained of or asked for."""
    shared.evaluate("scrollTo(0, 0), new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))")
    yield shared
    assert shared.complaints == []
    assert shared.requests == [sync_page.as_uri()]


@contextmanager
def opened(browser, folder, name, report, details=None):
    """A page of a report with every chart drawn; nothing may be complained of or asked for."""
    file = folder / f"{name}.html"
    file.write_text(render_html(report, details), encoding="utf-8", errors="replace")
    page = browser.open(file)
    draw_all(page)
    yield page
    assert page.complaints == []
    assert page.requests == [file.as_uri()]
    page.close()


def draw_all(page):
    page.evaluate("document.querySelectorAll('[data-chart]').forEach(element => drawOne(element))")


def see(page, selector):
    """Scroll to an element and wait until its chart is drawn."""
    page.evaluate(f"document.querySelector('{selector}').scrollIntoView()")
    page.wait(f"document.querySelector('{selector}').dataset.drawn")


def test_the_first_screen_has_the_answer(page):
    for words in (
        "sync-bound",
        "No single cause: the GPU is idle",
        "1.39 ms",
        "36.8%",
        "Recommendations",
        "Before you trust it",
    ):
        element = f"[...document.querySelectorAll('#answer *')].find(e => e.textContent.startsWith('{words}'))"
        assert page.evaluate(f"{SEEN}({element})"), words
    gains = page.evaluate("[...document.querySelectorAll('.gain')].map(e => e.textContent)")
    assert gains[:3] == sorted(gains[:3], reverse=True)


def test_charts_are_drawn_when_they_come_into_view(page, sync_report):
    see(page, "[data-chart=steps]")
    shown = page.evaluate("document.querySelector('[data-chart=steps]').data.map(trace => [trace.name, trace.y])")
    rows = sync_report[0].tables["steps"]
    assert dict(shown)["idle"] == pytest.approx([row.idle_ms for row in rows], rel=1e-5)
    heights = page.evaluate(
        "[...document.querySelectorAll('[data-chart=steps] .point path')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(heights) == len(shown) * len(rows)
    idle, compute = heights[-1], heights[0]
    assert idle / compute == pytest.approx(rows[-1].idle_ms / rows[0].compute_ms, rel=0.05)


def test_a_table_is_sorted_by_keyboard(page):
    table = "[...document.querySelectorAll('table')].find(table => table.caption.textContent == 'Operators')"
    page.evaluate(f"[...{table}.querySelectorAll('.sort')].find(button => button.textContent == 'calls').focus()")
    page.evaluate("window.sorted = document.activeElement.closest('table')")
    index = page.evaluate("document.activeElement.closest('th').cellIndex")
    cells = f"[...sorted.tBodies[0].rows].map(row => Number(row.cells[{index}].dataset.v))"
    for key, reverse in (("Enter", True), (" ", False)):
        page.press(key)
        values = page.evaluate(cells)
        assert len(values) == 13
        assert values == sorted(values, reverse=reverse)
        said = page.evaluate("document.activeElement.closest('th').ariaSort")
        assert said == ("descending" if reverse else "ascending")


def test_a_table_is_searched(page):
    page.evaluate("document.querySelector('[aria-label=\"Search in Operators\"]').focus()")
    page.write("aten::max")
    rows = "[...document.activeElement.closest('.tabular').querySelectorAll('tbody tr')].filter(row => !row.hidden)"
    assert page.evaluate(f"{rows}.map(row => row.cells[0].textContent)") == ["aten::max"]
    assert (
        page.evaluate("document.activeElement.closest('.tabular').querySelector('.found').textContent")
        == "1 of 13 rows"
    )


def test_a_definition_is_shown_for_what_has_the_focus(page):
    page.evaluate("[...document.querySelectorAll('#answer .term')].find(e => e.textContent == 'confidence').focus()")
    tip = "document.getElementById('tip')"
    assert page.evaluate(f"{tip}.innerText").startswith("margin of the bottleneck over the next cause")
    assert page.evaluate(f"{SEEN}({tip})")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.press("Escape")
    assert page.evaluate(f"{tip}.hidden")


def test_a_finding_leads_to_its_place_on_the_timeline(page, sync_report):
    page.evaluate("document.querySelector('#finding-1 a').focus()")
    page.press("Enter")
    page.wait("document.getElementById('timeline-status').textContent")
    timeline = sync_report[1].timeline
    gaps = timeline.events.take(timeline.events.category == Category.IDLE_SYNC)
    starts, ends = gaps.start.clip(*timeline.extent) / 1e6, gaps.end.clip(*timeline.extent) / 1e6
    longest = int((ends - starts).argmax())
    start, end = starts[longest], ends[longest]
    said = page.evaluate("document.getElementById('timeline-status').textContent")
    assert said.startswith(f"Marked: {start:.4f} to {end:.4f} ms")
    low, high = page.evaluate("document.getElementById('timeline-plot').layout.xaxis.range")
    assert low <= start < end <= high
    assert page.evaluate("document.activeElement.id") == "timeline-plot"
    assert page.evaluate(f"{SEEN}(document.querySelector('#timeline h2'))")
    names = page.evaluate(
        "[...document.querySelectorAll('#timeline-table tbody tr')].map(row => row.cells[0].textContent)"
    )
    assert "idle: sync" in names


def test_the_timeline_is_moved_by_keyboard(page):
    see(page, "#timeline-plot")
    page.evaluate("document.querySelector('[data-move=all]').click()")
    page.evaluate("document.getElementById('timeline-plot').focus()")
    span = "document.getElementById('timeline-plot').layout.xaxis.range"
    whole = page.evaluate(span)
    page.press("+")
    near = page.evaluate(span)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
    page.press("ArrowRight")
    later = page.evaluate(span)
    assert later[0] == pytest.approx(near[0] + (near[1] - near[0]) / 4)
    page.press("0")
    assert page.evaluate(span) == pytest.approx(whole)


def test_the_timeline_is_zoomed_with_the_mouse_and_says_what_is_under_it(page, sync_report):
    see(page, "#timeline-plot")
    page.evaluate("document.querySelector('[data-move=all]').click()")
    area = "document.querySelector('#timeline-plot .nsewdrag').getBoundingClientRect()"
    left, top, width, height = page.evaluate(f"(b => [b.left, b.top, b.width, b.height])({area})")
    page.drag((left + 0.2 * width, top + 0.5 * height), (left + 0.4 * width, top + 0.5 * height))
    low, high = (0.2 * sync_report[1].timeline.extent[1] / 1e6, 0.4 * sync_report[1].timeline.extent[1] / 1e6)
    span = "document.getElementById('timeline-plot').layout.xaxis.range"
    page.wait(f"Math.abs({span}[0] - {low}) < 0.01 && Math.abs({span}[1] - {high}) < 0.01")
    bars = "[...document.querySelectorAll('#timeline-plot .point path')].map(e => e.getBoundingClientRect())"
    x, y = page.evaluate(
        f"(b => [b.left + b.width / 2, b.top + b.height / 2])({bars}.reduce((a, b) => (a.width > b.width ? a : b)))"
    )
    page.point(x, y)
    page.point(x + 1, y)
    page.wait("document.querySelector('#timeline-plot .hovertext') !== null")
    said = page.evaluate("document.querySelector('#timeline-plot .hovertext').textContent")
    assert " from " in said
    assert " ms" in said


def test_zooming_in_shows_what_was_too_small_to_see(page):
    see(page, "#timeline-plot")
    count = "document.getElementById('timeline-plot').data.flatMap(trace => trace.text).filter(Boolean).length"
    before = page.evaluate(count)
    page.evaluate("[...Array(5)].forEach(() => document.querySelector('[data-move=in]').click())")
    labels = page.evaluate("[...document.querySelectorAll('#timeline-plot .bartext')].map(e => e.textContent)")
    assert len(labels) > 3 or page.evaluate(count) > before
    assert any(label.startswith("aten::") for label in labels)


def test_an_event_is_found_by_its_name(page):
    see(page, "#timeline-plot")
    page.evaluate("document.getElementById('timeline-find').focus()")
    page.write("localscalar")
    page.press("Enter")
    status = "document.getElementById('timeline-status').textContent"
    assert page.evaluate(status) == 'No event in the timeline is named "localscalar".'
    page.evaluate("document.getElementById('timeline-find').value = 'local_scalar'")
    page.press("Enter")
    assert page.evaluate(status).startswith("aten::_local_scalar_dense, ")


def test_a_colour_of_the_timeline_is_switched_off(page):
    see(page, "#timeline-plot")
    names = "document.getElementById('timeline-plot').data.map(trace => trace.name)"
    assert "idle: sync" in page.evaluate(names)
    page.evaluate("[...document.querySelectorAll('.keys label')].find(e => e.innerText.includes('idle: sync')).click()")
    assert "idle: sync" not in page.evaluate(names)


@pytest.mark.parametrize("dark", [True, False])
def test_text_can_be_read_in_light_and_dark(page, dark):
    see(page, "[data-chart=steps]")
    page.look(dark=dark)
    label = "getComputedStyle(document.querySelector('[data-chart=steps] .xtick text')).fill"
    page.wait(f"({label} == getComputedStyle(document.body).color)")
    assert (_light(page.evaluate(label))) == dark
    assert (_light(page.evaluate("getComputedStyle(document.body).backgroundColor"))) != dark


@pytest.mark.parametrize("width", [360, 768, 1920, 1280])
def test_nothing_but_tables_is_wider_than_the_window(page, width):
    page.look(width=width)
    draw_all(page)
    page.wait(f"document.documentElement.scrollWidth <= {width}")


def test_it_prints_with_all_charts_in_light_colours(page, tmp_path):
    page.look(dark=True)
    page.evaluate("addEventListener('beforeprint', () => window.colour = getComputedStyle(document.body).color)")
    page.paper(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert not _light(page.evaluate("window.colour"))
    assert page.evaluate("[...document.querySelectorAll('[data-chart]')].every(element => element.dataset.drawn)")
    assert _light(page.evaluate("getComputedStyle(document.body).color"))
    assert not page.evaluate("document.querySelector('#definitions details').open")
    page.look(dark=False)


def test_every_control_has_a_name_for_a_screen_reader(page):
    draw_all(page)
    page.call("Accessibility.enable")
    named = {"button", "link", "textbox", "searchbox", "image", "img", "checkbox", "region", "application", "table"}
    nodes = [n for n in page.call("Accessibility.getFullAXTree")["nodes"] if not n["ignored"]]
    roles = [n["role"]["value"] for n in nodes]
    assert {"banner", "navigation", "main", "heading", "table", "checkbox", "button"} <= set(roles)
    nameless = [n for n in nodes if n["role"]["value"] in named and not n["name"]["value"]]
    assert nameless == []


def test_the_first_stop_of_the_keyboard_skips_to_the_answer(page):
    page.evaluate("document.activeElement.blur(), document.querySelector('.skip').focus()")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    assert page.evaluate(f"{SEEN}(document.activeElement)")
    page.press("Enter")
    page.wait("document.activeElement.id == 'answer'")


KINDS = [
    "communication_bound",
    "compiled",
    "cuda_graph",
    "nsys_input_bound",
    "straggler",
    "sync_bound_stacks",
    "timing_input_bound",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_recording_is_shown_without_complaint(browser, folder, kind):
    report, details = report_and_details(SAMPLES / kind)
    with opened(browser, folder, kind, report, details) as page:
        assert page.evaluate("document.querySelector('h1').innerText") == f"{report.summary.bottleneck}-bound"
        assert page.evaluate("[...document.querySelectorAll('.plot')].every(e => e.querySelector('svg'))")
        assert page.evaluate("document.getElementById('timeline-plot') !== null") == (details.timeline is not None)


@pytest.mark.parametrize("report", [full(), empty(), hostile()], ids=["full", "empty", "hostile"])
def test_a_report_alone_is_shown_without_complaint(browser, folder, report):
    with opened(browser, folder, "alone", report) as page:
        assert page.evaluate("document.querySelector('h1').innerText")


def odd_trace(tmp_path, name, build):
    trace = KinetoTrace()
    build(trace)
    path = tmp_path / f"{name}.json.gz"
    path.write_bytes(gzip.compress(trace.json()))
    return report_and_details(path)


ATTACK = "k</script><script>window.attacked=1</script><img src=x onerror=window.attacked=1><!--<script>"


def attack(trace):
    for i in range(3):
        trace.step(i, 1000 * i, 990)
        trace.op(ATTACK, 1000 * i + 5, 500)
        trace.launched(ATTACK, 1000 * i + 10, 1000 * i + 30, 400)


def test_a_kernels_name_cannot_attack(browser, folder, tmp_path):
    report, details = odd_trace(tmp_path, "attack", attack)
    with opened(browser, folder, "attack", report, details) as page:
        page.evaluate("document.querySelectorAll('details').forEach(element => element.open = true)")
        assert page.evaluate("window.attacked") is None
        assert "onerror=window.attacked" in page.evaluate("document.body.innerText")


def on_the_host(trace):
    for i in range(4):
        trace.step(i, 1000 * i, 990)
        trace.op("aten::mm", 1000 * i + 5, 900)


def without_steps(trace):
    trace.launched("gemm", 0, 10, 50)
    trace.launched("gemm", 90, 100, 30)


@pytest.mark.parametrize("build", [on_the_host, without_steps])
def test_thin_recordings_have_a_timeline(browser, folder, tmp_path, build):
    report, details = odd_trace(tmp_path, build.__name__, build)
    with opened(browser, folder, build.__name__, report, details) as page:
        assert page.evaluate("document.querySelectorAll('#timeline-plot .point').length") > 0


def test_an_address_with_a_place_opens_there(page):
    page.evaluate("location.hash = '#at=100000-200000'")
    page.wait("document.getElementById('timeline-status').textContent.startsWith('Marked: 0.1000 to 0.2000 ms')")


def test_more_ranks_than_a_table_has_rows_are_counted(browser, folder):
    report = full()
    ranks = [dataclasses.replace(RANK, rank=i) for i in range(1_000)]
    report = dataclasses.replace(report, tables=report.tables | {"ranks": ranks})
    with opened(browser, folder, "ranks", report) as page:
        assert "700 more rows left out" in page.evaluate("document.getElementById('ranks').innerText")


def _light(colour):
    """Whether a colour is closer to white than to black."""
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) > 3 * 128
