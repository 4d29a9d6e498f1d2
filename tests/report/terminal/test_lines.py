"""Lines that are drawn without rich are those that rich draws."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from traceanalyzer.report.format import plain
from traceanalyzer.report.terminal.drawing import ANSI_CODES, TerminalPage

STYLES = ("", *ANSI_CODES, "bold red")
WORDS = st.sampled_from(["a", "kernels", "x" * 30, "0.4", "→", "µs", "界", "", "\t", "e\u0301"])


def of_rich(text: str, style: str, width: int, indent: int, *, colour: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(Padding(Text(plain(text), style), (0, 0, 0, indent)))
    return "\n".join(map(str.rstrip, file.getvalue().split("\n")))


@given(
    st.lists(WORDS, max_size=20).map(" ".join),
    st.sampled_from(STYLES),
    st.integers(20, 60),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_paragraph(text: str, style: str, width: int, indent: int, colour: bool) -> None:
    page = TerminalPage(width, colour)
    page.line(text, style, indent)
    assert page.text() == of_rich(text, style, width, indent, colour=colour)
