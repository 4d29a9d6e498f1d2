"""Charts of memory that can be zoomed: to the steps, to the peak, and by a drag."""

from __future__ import annotations

import pytest

from tests.recorded import ROOT
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.document import memory_document

SNAPSHOT = ROOT / "tests" / "data" / "memory" / "checkpointed.snapshot.pickle.gz"
NAMES = "[...figure.querySelectorAll('.axis text')].map(e => e.textContent)"
PRESS = "[...figure.querySelectorAll('button')].find(e => e.textContent === '{}').click()"
FIGURE = "const figure = document.querySelector('figure[data-zoom]'); "
SHARE_SHOWN = """(() => {
    const areas = document.querySelector('figure[data-zoom] .picture > svg > svg');
    return Number(areas.getAttribute('viewBox').split(' ')[2]) / 1e6;
})()"""


@pytest.fixture(scope="module")
def device():
    """The only GPU of a snapshot."""
    return memory_report(read_snapshot(SNAPSHOT)).memory[0]


@pytest.fixture(scope="module")
def page(browser, folder):
    """Its page."""
    file = folder / "memory.html"
    file.write_text(memory_document(memory_report(read_snapshot(SNAPSHOT))).html(), "utf-8")
    shown = browser.open(file)
    yield shown
    assert shown.complaints == []
    assert shown.requests == [file.as_uri()]
    shown.close()


def press(page, name):
    """Press a button of the first chart."""
    page.act(f"(() => {{ {FIGURE} {PRESS.format(name)} }})()")


def test_it_opens_at_the_steps_and_names_them(page, device):
    press(page, "the steps")
    whole_s = device.curve[-1][0] - device.curve[0][0]
    steps_s = device.steps[-1].end_s - device.steps[0].start_s
    assert page.evaluate(SHARE_SHOWN) <= steps_s / whole_s + 1e-6
    named = page.evaluate(f"(() => {{ {FIGURE} return {NAMES}; }})()")
    assert {name for name in named if name.startswith("step ")} <= {
        f"step {step.index}" for step in device.steps
    }
    assert any(name.startswith("step ") for name in named)


def test_buttons_show_all_and_less_of_it(page):
    press(page, "all")
    assert page.evaluate(SHARE_SHOWN) == pytest.approx(1.0)
    press(page, "+")
    assert page.evaluate(SHARE_SHOWN) == pytest.approx(0.5)
    press(page, "→")
    press(page, "-")
    assert page.evaluate(SHARE_SHOWN) <= 1.0


def test_what_is_dragged_over_fills_the_chart(page):
    press(page, "all")
    page.act("document.querySelector('figure[data-zoom] .picture').scrollIntoView()")
    box = page.evaluate(
        "(({left, width, top}) => [left, width, top])"
        "(document.querySelector('figure[data-zoom] .picture').getBoundingClientRect())"
    )
    left, width, top = box
    page.drag((left + 0.25 * width, top + 100), (left + 0.5 * width, top + 100))
    assert page.evaluate(SHARE_SHOWN) == pytest.approx(0.25, abs=0.01)


def test_a_narrow_page_does_not_scroll_sideways(page):
    page.look(width=390)
    page.settle()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.look()
