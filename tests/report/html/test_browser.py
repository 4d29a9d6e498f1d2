"""What the page shows and does, seen in Chromium: not its mark-up."""

from __future__ import annotations

import dataclasses
import gzip
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.kineto_builder import KinetoTrace
from tests.report.html.conftest import SAMPLES, report_and_details
from tests.report.reports import empty, full, hostile
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.report.html import render_html
from traceanalyzer.report.timeline.lanes import Category

RANK = RankRow(0, 0, 10.0, 10.0, 6.0, 3.0, 1.0, 2.0, 1.0, False)
VIEW = "shownTimeline.view"
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
    """It, in front, scrolled to its top, the pointer on nothing; whatever a test does there,
    nothing may be complained of or asked for."""
    shared.look()
    shared.call("Page.bringToFront")
    shared.point(1, 1)
    shared.act("document.activeElement.blur(), scrollTo(0, 0)")
    yield shared
    assert shared.complaints == []
    assert shared.requests == [sync_page.as_uri()]


@contextmanager
def opened(browser, folder, name, report, details=None):
    """A page of a report; nothing may be complained of or asked for."""
    file = folder / f"{name}.html"
    file.write_text(render_html(report, details), encoding="utf-8", errors="replace")
    page = browser.open(file)
    yield page
    assert page.complaints == []
    assert page.requests == [file.as_uri()]
    page.close()


def see(page, selector):
    """Scroll to an element."""
    page.act(f"document.querySelector('{selector}').scrollIntoView()")


def near(value, within=None):
    """Whether a value is this one, about."""
    return lambda seen: seen == pytest.approx(value, abs=within)


def test_the_first_screen_has_the_answer(page):
    for words in (
        "sync- and compute-bound",
        "Mixed: compute 62%, syncs 33% of each 1.39 ms step",
        "1.39 ms",
        "36.8%",
        "What to change",
    ):
        element = f"[...document.querySelectorAll('#answer *')].find(e => e.textContent.startsWith('{words}'))"
        assert page.evaluate(f"{SEEN}({element})"), words
    gains = page.evaluate("[...document.querySelectorAll('.gain')].map(e => e.textContent)")
    assert gains[:3] == sorted(gains[:3], reverse=True)


def test_only_what_spoils_the_figures_is_a_warning(browser, folder):
    report, details = report_and_details(SAMPLES / "wasteful_kernels")
    report = replace(report, notes=["Half is missing.", *report.notes], pressing_notes=1)
    with opened(browser, folder, "caveats", report, details) as page:
        (box,) = page.evaluate("[...document.querySelectorAll('.warnings')].map(e => e.innerText)")
    assert "Before you trust it" in box
    assert "Half is missing." in box
    assert "of GPU work is in the 4 steps" not in box
    calm, _ = report_and_details(SAMPLES / "sync_bound")
    assert "Before you trust it" not in render_html(calm)


def test_bars_are_as_high_as_what_they_stand_for(page, sync_report):
    see(page, "#chart-steps")
    rows = sync_report[0].tables["steps"]
    bars = page.evaluate(
        "[...document.querySelectorAll('#chart-steps rect[data-def]')]"
        ".map(e => [e.dataset.def, e.getBoundingClientRect().height])"
    )
    last = [height for said, height in bars if said.startswith(f"step {rows[-1].step}: idle: ")]
    compute = [height for said, height in bars if ": compute " in said]
    assert len(compute) == len(rows)
    assert sum(last) / compute[0] == pytest.approx(rows[-1].idle_ms / rows[0].compute_ms, rel=0.05)


def test_what_a_bar_stands_for_is_said_to_pointer_and_keyboard(page):
    see(page, "#chart-steps")
    page.act("document.querySelector('#chart-steps .picture').focus()")
    page.press("ArrowRight")
    said = "document.getElementById('tip').textContent"
    page.wait(f"{said}.startsWith('step ')")
    page.wait("document.activeElement.getAttribute('aria-describedby') == 'tip'")
    box = "document.querySelector('#chart-classes rect[data-def]').getBoundingClientRect()"
    see(page, "#chart-classes")
    page.point(*page.evaluate(f"(b => [b.left + b.width / 2, b.top + b.height / 2])({box})"))
    page.wait(f"{said}.includes('of the device time')")


def test_idle_time_has_the_colours_of_its_causes_from_the_budget_to_the_timeline(page):
    bar = "getComputedStyle(document.querySelector('.bar [data-def^=\"idle: sync\"]')).backgroundColor"
    key = "[...document.querySelectorAll('#timeline .keys label')].find(e => e.innerText.includes('idle: sync'))"
    assert page.evaluate(bar) == page.evaluate(
        f"getComputedStyle({key}.querySelector('.key')).backgroundColor"
    )


def test_a_table_is_sorted_by_keyboard(page):
    table = "[...document.querySelectorAll('table')].find(table => table.caption.textContent == 'Operators')"
    page.act(
        f"[...{table}.querySelectorAll('.sort')].find(button => button.textContent == 'calls').focus()"
    )
    page.evaluate("window.sorted = document.activeElement.closest('table')")
    index = page.evaluate("document.activeElement.closest('th').cellIndex")
    cells = f"[...sorted.tBodies[0].rows].map(row => Number(row.cells[{index}].dataset.v))"
    for key, reverse in (("Enter", True), (" ", False)):
        page.press(key)
        page.wait(
            f"document.activeElement.closest('th').ariaSort == '{'descending' if reverse else 'ascending'}'"
        )
        values = page.evaluate(cells)
        assert len(values) == 12
        assert values == sorted(values, reverse=reverse)


def test_a_table_is_searched(page):
    page.act("document.querySelector('[aria-label=\"Search in Operators\"]').focus()")
    page.write("aten::max")
    rows = "[...document.activeElement.closest('.tabular').querySelectorAll('tbody tr')].filter(row => !row.hidden)"
    page.until(f"{rows}.map(row => row.cells[0].textContent)", lambda shown: shown == ["aten::max"])
    assert (
        page.evaluate(
            "document.activeElement.closest('.tabular').querySelector('.found').textContent"
        )
        == "1 of 12 rows"
    )


def test_how_a_table_is_sorted_and_searched_is_kept_in_the_link(browser, page, sync_page):
    field = "document.querySelector('[aria-label=\"Search in Operators\"]')"
    page.act(f"{field}.value = '', {field}.focus()")
    page.write("aten::")
    table = "[...document.querySelectorAll('table')].find(table => table.caption.textContent == 'Operators')"
    page.act(f"{table}.querySelectorAll('.sort')[2].click()")
    kept = page.until("location.hash", lambda kept: "sort=" in kept and "find=" in kept)
    assert "table=Operators" in kept
    state = f"[...{table}.querySelectorAll('th')].map(e => e.ariaSort).concat({field}.value)"
    shown = page.evaluate(state)
    page.act(f"{table}.querySelectorAll('.sort')[0].click()")
    page.until(state, lambda now: now != shown)
    page.act(f"location.hash = {kept!r}, restore()")
    page.until(state, lambda now: now == shown)
    page.act(f"{field}.value = '', {field}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    page.act("history.replaceState(null, '', '#')")


def test_a_definition_is_shown_for_what_has_the_focus(page):
    page.act(
        "[...document.querySelectorAll('#answer .term')].find(e => e.textContent == 'confidence').focus()"
    )
    tip = "document.getElementById('tip')"
    page.wait(f"{tip}.innerText.startsWith('margin of the bottleneck over the next cause')")
    page.wait(f"{SEEN}({tip})")
    page.wait("document.activeElement.getAttribute('aria-describedby') == 'tip'")
    page.press("Escape")
    page.wait(f"{tip}.hidden")


def test_a_definition_stays_where_the_focus_scrolled_to_and_goes_with_any_other_scroll(page):
    hidden = "document.getElementById('tip').hidden"
    last = "[...document.querySelectorAll('.term')].findLast(e => e.dataset.def && e.offsetParent)"
    page.act(f"{last}.focus()")
    page.wait("scrollY > 0")
    page.settle()
    assert not page.evaluate(hidden)
    page.wait(f"{SEEN}(document.getElementById('tip'))")
    page.act("document.activeElement.blur()")
    page.act("showTip(document.querySelector('#answer .term')), scrollTo(0, 0)")
    page.wait(hidden)


def test_a_finding_leads_to_its_place_on_the_timeline(page, sync_report):
    page.act("document.querySelector('#finding-1 a').focus()")
    page.press("Enter")
    timeline = sync_report[1].timeline
    gaps = timeline.events.take(timeline.events.category == Category.IDLE_SYNC)
    starts = gaps.start.clip(*timeline.extent) / 1e6
    ends = gaps.end.clip(*timeline.extent) / 1e6
    longest = int((ends - starts).argmax())
    start = starts[longest]
    end = ends[longest]
    said = "document.getElementById('timeline-status').textContent"
    page.wait(f"{said}.startsWith('Marked: {start:.4f} to {end:.4f} ms')")
    low, high = (ns / 1e6 for ns in page.evaluate(VIEW))
    assert low <= start < end <= high
    page.wait("document.activeElement.id == 'timeline-plot'")
    page.wait(f"{SEEN}(document.querySelector('#timeline h2'))")
    table = "document.getElementById('timeline-table').closest('details')"
    page.act(f"{table}.open = true")
    names = "[...document.querySelectorAll('#timeline-table tbody tr')].map(row => row.cells[0].textContent)"
    page.wait(f"{names}.includes('idle: sync')")
    page.act(f"{table}.open = false")


def whole_step(page):
    """All of the timeline in view, nothing pinned."""
    see(page, "#timeline-plot")
    page.act("document.getElementById('timeline-plot').focus({ preventScroll: true })")
    page.press("Escape")
    page.press("0")
    page.wait(f"{VIEW}.join() == shownTimeline.timeline.extent.join() && shownTimeline.pinned < 0")


def place_of(page, name):
    """Where on the screen the longest event of that name is, as far as it is in view."""
    return page.evaluate(
        f"""(() => {{
            const s = shownTimeline, t = s.timeline, [from, to] = s.view;
            let best = -1;
            t.start.forEach((_, i) => {{
                if (t.text(i) === "{name}" && (best < 0 || t.length[i] > t.length[best])) best = i;
            }});
            const box = document.querySelector("#timeline-plot canvas").getBoundingClientRect();
            const row = s.rows.find((one) => one.lane === t.lane[best]);
            const middle = (Math.max(t.start[best], from) + Math.min(t.end[best], to)) / 2;
            return [box.left + ((middle - from) / (to - from)) * box.width, box.top + row.y + row.height / 2];
        }})()"""
    )


def test_the_timeline_is_moved_by_keyboard(page):
    whole_step(page)
    whole = page.evaluate(VIEW)
    for near_key, later_key in (("+", "ArrowRight"), ("w", "d")):
        page.press(near_key)
        half = (whole[1] - whole[0]) / 2
        page.until(f"{VIEW}[1] - {VIEW}[0]", near(half))
        before = page.evaluate(VIEW)[0]
        page.press(later_key)
        page.until(f"{VIEW}[0]", near(before + half / 4))
        page.press("a")
        page.until(f"{VIEW}[0]", near(before))
        page.press("s")
        page.press("0")
        page.until(VIEW, near(whole))


def test_the_wheel_zooms_around_the_pointer_with_ctrl_alone(page):
    whole_step(page)
    x, y = place_of(page, "idle: sync")
    before = page.evaluate(VIEW)
    scrolled = page.evaluate("scrollY")
    page.wheel(x, y, -120, held="ctrl")
    page.wait(f"{VIEW}[1] - {VIEW}[0] < {before[1] - before[0]}")
    box = "document.querySelector('#timeline-plot canvas').getBoundingClientRect()"
    share = page.evaluate(f"({x} - {box}.left) / {box}.width")
    after = page.evaluate(VIEW)
    at = [low + share * (high - low) for low, high in (before, after)]
    assert at[0] == pytest.approx(at[1], abs=(before[1] - before[0]) / 200)
    assert page.evaluate("scrollY") == scrolled
    page.wheel(x, y, 120)
    page.wait(f"scrollY != {scrolled}")
    assert page.evaluate(VIEW) == after


def test_dragging_measures_and_z_zooms_to_it(page, sync_report):
    whole_step(page)
    box = "document.querySelector('#timeline-plot canvas').getBoundingClientRect()"
    left, top, width = page.evaluate(f"(b => [b.left, b.top, b.width])({box})")
    page.drag((left + 0.2 * width, top + 30), (left + 0.4 * width, top + 30))
    low, high = sync_report[1].timeline.extent
    wanted = [low + share * (high - low) for share in (0.2, 0.4)]
    said = "document.getElementById('timeline-pinned').innerText"
    page.wait(f"{said}.includes('measured, from') && {said}.includes('GPU 0 idle: ')")
    page.until("shownTimeline.measured", near(wanted, (high - low) / 500))
    page.press("z")
    page.until(VIEW, near(wanted, (high - low) / 500))
    page.press("Escape")
    page.wait("document.getElementById('timeline-pinned').hidden")


def test_a_click_pins_what_is_known_of_an_event_and_leads_to_its_launch(page):
    whole_step(page)
    timeline = page.evaluate("[...new Set(shownTimeline.timeline.names)]")
    kernel = next(
        name for name in timeline if "gemm" in name or "elementwise" in name or "sgemm" in name
    )
    x, y = place_of(page, kernel)
    page.click(x, y)
    said = "document.getElementById('timeline-pinned').innerText"
    page.wait(f"{said}.includes({kernel!r})")
    for words in ("GPU 0 stream", "in ", "aten::", "blocks of"):
        page.wait(f"{said}.includes({words!r})")
    buttons = "[...document.querySelectorAll('#timeline-pinned button')]"
    page.act(f"{buttons}.find(e => e.innerText.includes('launched by')).click()")
    page.wait(f"{said}.includes('LaunchKernel') && {said}.includes('launches: ')")
    page.wait("document.activeElement.id == 'timeline-plot'")


def test_a_wait_leads_to_what_ended_it(page):
    whole_step(page)
    x, y = place_of(page, "cudaStreamSynchronize")
    page.click(x, y)
    said = "document.getElementById('timeline-pinned').innerText"
    page.wait(f"{said}.includes('it waited for: Memcpy')")
    pinned, link = page.evaluate(
        "(t => [t.end[shownTimeline.pinned], t.end[t.link[shownTimeline.pinned] - 1]])(shownTimeline.timeline)"
    )
    assert link <= pinned


def test_events_are_gone_through_by_keyboard(page):
    whole_step(page)
    page.press("Enter")
    page.wait("shownTimeline.pinned >= 0")
    page.wait("document.getElementById('timeline-status').textContent.startsWith('Pinned: ')")
    lane = "shownTimeline.timeline.lane[shownTimeline.pinned]"
    pinned = "shownTimeline.pinned"
    begins = page.evaluate(lane)
    page.press("ArrowDown")
    page.wait(f"{lane} > {begins}")
    page.press("ArrowUp")
    page.wait(f"{lane} == {begins}")
    page.press("ArrowDown")
    page.wait(f"{lane} > {begins}")
    at = page.evaluate(pinned)
    page.press(".")
    page.wait(f"{pinned} != {at}")
    page.press(",")
    page.wait(f"{pinned} == {at}")


def test_a_lane_is_folded(page):
    whole_step(page)
    height = "document.querySelector('#timeline-plot canvas').clientHeight"
    before = page.evaluate(height)
    page.act(
        "[...document.querySelectorAll('#timeline-lanes button')].find(e => e.dataset.lane.includes('thread')).focus()"
    )
    page.press("Enter")
    page.wait(f"{height} < {before}")
    page.wait("document.activeElement.ariaExpanded == 'false'")
    page.press("Enter")
    page.wait(f"{height} == {before}")


def test_other_steps_can_be_chosen(page, sync_report):
    pick = "document.getElementById('timeline-pick')"
    titles = page.evaluate(f"[...{pick}.options].map(e => e.innerText)")
    assert titles == [one.title for one in sync_report[1].timelines]
    assert any("slowest" in title for title in titles)
    for i in (1, 0):
        page.act(f"{pick}.value = {i}, {pick}.dispatchEvent(new Event('change'))")
        page.until("shownTimeline.timeline.title", lambda shown, i=i: shown == titles[i])


STAND_IN = """
    window.handed = [];
    window.stand_in = document.body.appendChild(document.createElement("iframe"));
    stand_in.hidden = true;
    const answer = (origin, data, source) => dispatchEvent(new MessageEvent("message", { origin, data, source }));
    stand_in.contentWindow.postMessage = (message, origin) => {
        handed.push([message, origin]);
        if (message !== "PING" || handed.length < 2) return;
        answer("https://elsewhere.example", "PONG", stand_in.contentWindow);
        answer("https://ui.perfetto.dev", "PONG", window);
        answer("https://ui.perfetto.dev", "PONG", stand_in.contentWindow);
    };
    window.open = (url) => { window.asked_for = url; return stand_in.contentWindow; };
"""
"""A window that answers as Perfetto's does, on the second call; before it others do, who must get
nothing."""


def test_perfetto_gets_the_timeline_on_a_click_alone(page, sync_report):
    page.act(STAND_IN)
    assert page.evaluate("window.asked_for") is None
    see(page, "#timeline-perfetto")
    box = "document.querySelector('#timeline-perfetto').getBoundingClientRect()"
    page.click(*page.evaluate(f"(b => [b.left + b.width / 2, b.top + b.height / 2])({box})"))
    status = "document.getElementById('timeline-status').textContent"
    page.wait(f"{status}.startsWith('Perfetto has the events')")
    assert page.evaluate("asked_for") == "https://ui.perfetto.dev"
    assert page.evaluate("handed.map(([message]) => message === 'PING')") == [True, True, False]
    assert set(page.evaluate("handed.map(([, origin]) => origin)")) == {"https://ui.perfetto.dev"}
    given = page.evaluate(
        "JSON.parse(new TextDecoder().decode(handed[2][0].perfetto.buffer)).traceEvents"
    )
    timeline = sync_report[1].timeline
    slices = [event for event in given if event["ph"] == "X"]
    assert sum(event["dur"] for event in slices) == pytest.approx(
        (timeline.events.end - timeline.events.start).sum() / 1e3
    )
    launches = {event["id"]: event for event in given if event["ph"] == "s"}
    kernels = {(event["tid"], event["ts"]): event for event in slices}
    arrows = [
        (launches[event["id"]], kernels[event["tid"], event["ts"]])
        for event in given
        if event["ph"] == "f"
    ]
    assert len(arrows) == len(launches) > 0
    calls = [kernels[launch["tid"], launch["ts"]]["name"] for launch, _ in arrows]
    assert all(name.startswith(("cuda", "aten")) for name in calls)
    titles = [event["args"]["name"] for event in given if event["ph"] == "M"]
    assert titles == list(dict.fromkeys(lane.title for lane in timeline.lanes))
    page.act("stand_in.remove()")


def test_a_title_that_is_cut_is_shown_in_full_where_it_is_tapped(page):
    page.look(width=390)
    see(page, "#timeline-lanes")
    cut = "[...document.querySelectorAll('#timeline-lanes button')].findLast(e => e.scrollWidth > e.clientWidth)"
    page.wait(f"{cut}?.dataset.def !== undefined")
    title = page.evaluate(f"{cut}.dataset.lane")
    x, y = page.evaluate(
        f"(b => [b.left + b.width / 2, b.top + b.height / 2])({cut}.getBoundingClientRect())"
    )
    page.click(x, y)
    tip = "document.getElementById('tip')"
    page.wait(f"!{tip}.hidden && {tip}.textContent == {title!r}")
    page.wait(f"{SEEN}({tip})")
    page.click(x, y)
    page.wait(
        "[...document.querySelectorAll('#timeline-lanes button')].every(e => e.ariaExpanded == 'true')"
    )
    page.look()
    page.wait(f"{cut} === undefined || {cut}.dataset.def !== undefined")


def test_an_event_is_found_by_its_name(page):
    see(page, "#timeline-plot")
    page.act("document.getElementById('timeline-find').focus()")
    page.write("localscalar")
    page.press("Enter")
    status = "document.getElementById('timeline-status').textContent"
    page.until(status, lambda said: said == 'No event in the timeline is named "localscalar".')
    page.act("document.getElementById('timeline-find').value = 'local_scalar'")
    page.press("Enter")
    page.wait(f"/^1 of [0-9]+: aten::_local_scalar_dense, /.test({status})")


def test_a_colour_of_the_timeline_is_switched_off(page):
    whole_step(page)
    box = "document.querySelectorAll('#timeline [data-category]')"
    lanes = "[...document.querySelectorAll('#timeline-lanes button')].map(e => e.dataset.lane)"
    page.wait(f"{lanes}.includes('GPU 0 idle')")
    switch = f"[...{box}].filter(e => e.parentElement.innerText.includes('idle: ')).forEach(e => e.click())"
    page.act(switch)
    # A row without anything to show takes no room.
    page.wait(f"!{lanes}.includes('GPU 0 idle')")
    page.act(switch)
    page.wait(f"{lanes}.includes('GPU 0 idle')")


@pytest.mark.parametrize("dark", [True, False])
def test_text_can_be_read_in_light_and_dark(page, dark):
    see(page, "#chart-idle")
    page.look(dark=dark)
    label = "getComputedStyle(document.querySelector('#chart-idle g:last-child text')).fill"
    page.wait(f"({label} == getComputedStyle(document.body).color)")
    assert (_light(page.evaluate(label))) == dark
    assert (_light(page.evaluate("getComputedStyle(document.body).backgroundColor"))) != dark


@pytest.mark.parametrize("width", [360, 768, 1920, 1280])
def test_nothing_but_tables_is_wider_than_the_window(page, width):
    page.look(width=width)
    page.wait(f"document.documentElement.scrollWidth <= {width}")


def test_it_prints_in_light_colours_without_definitions(page, tmp_path):
    page.look(dark=True)
    page.wait("matchMedia('(prefers-color-scheme: dark)').matches")
    page.act(
        "addEventListener('beforeprint', () => window.colour = getComputedStyle(document.body).color)"
    )
    page.paper(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert not _light(page.until("window.colour", bool))
    page.until("getComputedStyle(document.body).color", _light)
    page.look(dark=False, media="print")
    page.wait("matchMedia('print').matches")
    shown = "getComputedStyle(document.querySelector('{}')).display"
    assert page.evaluate(shown.format("#definitions")) == "none"
    assert page.evaluate(shown.format("#timeline .area")) == "none"
    assert page.evaluate(shown.format("#timeline-still")) != "none", (
        "a picture stands for the canvas"
    )
    page.look()
    page.wait("!matchMedia('print').matches")


def test_every_control_has_a_name_for_a_screen_reader(page):
    page.call("Accessibility.enable")
    named = {
        "button",
        "link",
        "textbox",
        "searchbox",
        "image",
        "img",
        "checkbox",
        "region",
        "application",
        "table",
    }
    nodes = [n for n in page.call("Accessibility.getFullAXTree")["nodes"] if not n["ignored"]]
    roles = [n["role"]["value"] for n in nodes]
    assert {"banner", "navigation", "main", "heading", "table", "checkbox", "button"} <= set(roles)
    nameless = [n for n in nodes if n["role"]["value"] in named and not n["name"]["value"]]
    assert nameless == []


def test_the_first_stop_of_the_keyboard_skips_to_the_answer(page):
    page.act("document.querySelector('.skip').focus()")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    page.wait(f"{SEEN}(document.activeElement)")
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
        assert report.summary.headline.startswith(
            page.evaluate("document.querySelector('h1').innerText")
        )
        assert page.evaluate("document.getElementById('timeline-plot') !== null") == (
            details.timeline is not None
        )


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


ATTACK = (
    "k</script><script>window.attacked=1</script><img src=x onerror=window.attacked=1><!--<script>"
)


def attack(trace):
    for i in range(3):
        trace.step(i, 1000 * i, 990)
        trace.op(ATTACK, 1000 * i + 5, 500)
        trace.launched(ATTACK, 1000 * i + 10, 1000 * i + 30, 400)


def test_a_kernels_name_cannot_attack(browser, folder, tmp_path):
    report, details = odd_trace(tmp_path, "attack", attack)
    with opened(browser, folder, "attack", report, details) as page:
        page.act("document.querySelectorAll('details').forEach(element => element.open = true)")
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
        assert page.evaluate("shownTimeline.rows.length") > 0


def test_what_the_timeline_shows_is_kept_in_the_address(browser, page, sync_page):
    whole_step(page)
    page.act("document.getElementById('timeline-plot').focus()")
    page.press("Enter")
    page.press("+")
    kept = page.until("location.hash", lambda kept: "view=" in kept and "pin=" in kept)
    state = "[shownTimeline.view.map(Math.round), shownTimeline.pinned]"
    shown = page.evaluate(state)
    page.press("Escape")
    page.press("0")
    page.until("location.hash", lambda now: "=" not in now)
    page.act(f"location.hash = {kept!r}")
    page.until(state, lambda now: now == shown)
    page.press("Escape")
    page.act("history.replaceState(null, '', '#')")


def test_neighbours_share_a_stop_of_the_keyboard(page):
    stops = "[...document.querySelector('thead tr:has(.sort)').querySelectorAll('.sort')].map(e => e.tabIndex)"
    assert sum(stop == 0 for stop in page.evaluate(stops)) == 1
    page.act(
        "document.querySelector('thead tr .sort').closest('details')?.setAttribute('open', '')"
    )
    page.act("document.querySelector('thead tr .sort').focus()")
    page.press("ArrowRight")
    page.wait("document.activeElement.closest('th')?.cellIndex == 1")
    assert page.evaluate(stops)[:2] == [-1, 0]


def test_an_address_with_a_place_opens_there(page):
    page.act("location.hash = '#at=100000-200000'")
    page.wait(
        "document.getElementById('timeline-status').textContent.startsWith('Marked: 0.1000 to 0.2000 ms')"
    )


def test_more_ranks_than_a_table_has_rows_are_counted(browser, folder):
    report = full()
    ranks = [dataclasses.replace(RANK, rank=i) for i in range(1_000)]
    report = dataclasses.replace(report, tables=report.tables | {"ranks": ranks})
    with opened(browser, folder, "ranks", report) as page:
        assert "700 more rows left out" in page.evaluate(
            "document.getElementById('ranks').innerText"
        )


def _light(colour):
    """Whether a colour is closer to white than to black."""
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) > 3 * 128
