"""Figures have three digits and a unit that fits; names are made harmless."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.base.figures import digits, signed_share
from traceanalyzer.report.format import figure, label, number, plain, shorten


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0123456, "ms", "12.3 us"),
        (1.0, "ms", "1.00 ms"),
        (12_345.6, "ms", "12.3 s"),
        (0.0000123, "ms", "12.3 ns"),
        (182_411, "ns", "182 us"),
        (999.96, "us", "1.00 ms"),
        (9.996, "us", "10.0 us"),
        (99.96, "us", "100 us"),
        (0.0, "ms", "0 ms"),
        (-1.234, "ms", "-1.23 ms"),
        (0.12345, "share", "12.3%"),
        (1.0, "share", "100%"),
        (0.0, "share", "0%"),
        (1e-9, "share", "<0.001%"),
        (1234567, "", "1,234,567"),
        (1224.0, "", "1,224"),
        (10.23, "", "10.2"),
        (3352.4, "GB/s", "3,352 GB/s"),
        (1_048_576, "bytes", "1.05 MB"),
        (0, "bytes", "0 B"),
        (1.6931, "x", "1.69x"),
        (True, "", "yes"),
        ("profiler_step", "", "profiler_step"),
        (None, "ms", "n/a"),
        (math.nan, "ms", "n/a"),
        (-math.inf, "", "n/a"),
        (1e308, "ms", ">1,000,000,000,000,000 s"),
    ],
)
def test_figures_are_shown_in_a_unit_that_fits(value, unit, shown):
    assert figure(value, unit) == shown


@given(st.floats(min_value=1e-3, max_value=1e14))
def test_a_shown_figure_has_three_digits_of_the_real_one(value):
    text = number(value)
    assert "e" not in text
    assert len(text.replace(",", "")) <= 16
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0051)


@given(st.floats())
def test_every_float_can_be_shown(value):
    assert "nan" not in number(value)
    assert "inf" not in number(value)
    assert figure(value, "ms") != ""


def test_control_characters_surrogates_and_direction_marks_do_not_survive():
    assert plain("a\nb\t\x1b[31mc\u202e\ud800\x85") == "a b \ufffd[31mc\ufffd\ufffd "


def test_a_long_name_keeps_both_ends():
    assert shorten("abcdefghij" * 10, 20) == "abcdefghija…cdefghij"
    assert shorten("short", 5) == "short"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("largest_gap_ms", "largest gap"),
        ("device_busy_share", "device busy"),
        ("gpu_idle_ms", "GPU idle"),
        ("bandwidth_gbs", "bandwidth"),
        ("cls", "class"),
        ("kernels_per_step", "kernels per step"),
        ("mfu", "MFU"),
        ("fruitless_share", "launches without kernels"),
    ],
)
def test_labels_leave_out_the_unit(name, shown):
    assert label(name) == shown


def test_a_unit_is_left_out_however_it_is_written():
    assert label("traffic_gb", "GB") == "traffic"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.39612, "0.396"), (12.34, "12.3"), (999.4, "999"), (999.6, "1,000"), (1064.2, "1,064")],
)
def test_digits_of_a_sentence_have_no_exponent(value: float, text: str) -> None:
    assert digits(value) == text
    assert digits(-value) == f"-{text}"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (-0.199, "-19.9%"),
        (0.0, "+0.0%"),
        (8.994, "+899.4%"),
        (9.0, "10 times"),
        (47350.4, "47,351 times"),
    ],
)
def test_a_growth_from_ten_times_up_is_a_multiple(share: float, text: str) -> None:
    assert signed_share(share) == text
