"""No text becomes markup."""

from __future__ import annotations

import pytest

from tests.report.reports import HOSTILE
from traceanalyzer.report.html.markup import Markup, join, tag


def test_children_and_attributes_are_escaped():
    assert tag("p", "<b>&", title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;</p>'


def test_markup_stays_and_nothing_is_left_out():
    assert tag("p", tag("b", "x"), None, " y") == "<p><b>x</b> y</p>"
    assert join("a", None, Markup("<br>")) == "a<br>"


def test_attributes_without_a_value():
    assert tag("details", open=True, hidden=False, id=None, class_="a", data_v=3) == (
        '<details open class="a" data-v="3"></details>'
    )


def test_void_elements_have_no_end():
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text):
    made = tag("p", text, title=text)
    assert made.count("<") == 2
    assert made.isprintable()
    made.encode()
