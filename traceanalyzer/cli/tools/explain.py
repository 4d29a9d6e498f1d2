"""`traceanalyzer explain`."""

import textwrap
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.options import command

if TYPE_CHECKING:
    from traceanalyzer.report.explain import Explanation

ROWS = {
    "compare": (
        "comparison.outline.ChangeRow",
        "comparison.outline.DetailRow",
        "comparison.outline.IdleRow",
        "comparison.outline.BudgetRow",
        "comparison.outline.FigureRow",
        "comparison.outline.ConditionRow",
        "comparison.document.RunRow",
        "comparison.side_by_side.by_row.RowChange",
        "comparison.side_by_side.by_row.BatchChange",
        "comparison.side_by_side.by_row.Outcome",
        "comparison.side_by_side.by_rank.RankChange",
    ),
    "check": ("comparison.verdicts.LimitRow",),
    "whatif": ("replay.prediction.Prediction", "replay.unmade.answer.Unmade"),
}
"""Rows of tables that are no table of a report, by the command that prints them."""
QUOTED = {"metrics.utilisation"}
"""Where the figures are that people quote."""
ON_SCREEN = ", which `analyze` shows first"
ALIKE = 0.7
"""How alike a name is that is suggested: `foo` is not meant to be `oom`."""


@command("explain")
@click.argument("words", metavar="[NAME]", nargs=-1)
def explain(words: tuple[str, ...]) -> None:
    """Say what a finding, a word of the report, a metric or a column means."""
    from traceanalyzer.cli.io.output import write
    from traceanalyzer.cli.io.stdout import terminal_width
    from traceanalyzer.diagnosis.pages import finding_page, finding_pages

    name = " ".join(words)
    width = terminal_width()
    if not name:
        pages = finding_pages().values()
        widest = max(len(page.id) for page in pages)
        listed = (
            click.wrap_text(page.title, width, f"{page.id:{widest}}  ", " " * (widest + 2))
            for page in pages
        )
        write("".join(f"{one}\n" for one in listed), None)
        return
    page = finding_page(name)
    from traceanalyzer.report.explain import page_in_words

    write(
        page_in_words(page, width)
        if page is not None
        else "".join(_meaning(part, width) for part in name.split("+")),
        None,
    )


def _columns_of_commands() -> list["Explanation"]:
    """Columns of what `compare`, `check` and `whatif` print."""
    from traceanalyzer.report.explain import columns_explained

    found: list[Explanation] = []
    for table, rows in ROWS.items():
        for row in rows:
            module, _, name = row.rpartition(".")
            kind = getattr(import_module(f"traceanalyzer.{module}"), name)
            found += columns_explained(kind, f"table {table}")
    return found


def _switches() -> list["Explanation"]:
    """Changes that `try` puts on and off."""
    from traceanalyzer.report.explain import FILLED_IN, Explanation
    from traceanalyzer.trials.switches import SWITCHES

    found: list[Explanation] = []
    for switch in SWITCHES:
        advised = " or ".join(f"`{remedy}`" for remedy in switch.remedies)
        called = f" Advice calls it {advised}." if advised else ""
        write = FILLED_IN.sub("N", switch.write)
        meaning = (
            f"{switch.title}, a switch of `try`: it times the program with `{write}` and "
            f"without.{called} It could break {switch.could_break}."
        )
        found.append(Explanation(switch.id, "try", "", meaning))
    return found


def _meaning(name: str, width: int) -> str:
    """What a figure of that name means, wherever there is one, in lines of that width. Raises
    UsageError."""
    from traceanalyzer.report.explain import explained, explanations

    columns = [*_columns_of_commands(), *_switches()]
    places: dict[str, list[str]] = {}
    for entry in explained(name, columns):
        unit = f" ({entry.unit})" if entry.unit else ""
        places.setdefault(f"{entry.meaning}{unit}", []).extend(
            [entry.where] if entry.where != "word" else []
        )
    if not places:
        from difflib import get_close_matches

        from traceanalyzer.diagnosis.pages import finding_pages

        known = [
            *(page.id for page in finding_pages().values()),
            *(entry.name for entry in (*explanations(), *columns)),
        ]
        near = get_close_matches(name, known, 1, ALIKE)
        hint = f"did you mean {near[0]}?" if near else "`traceanalyzer explain` lists the findings"
        raise click.UsageError(f"there is no finding, metric or column {name!r}; {hint}")
    return "".join(
        _wrapped(f"{name}: {meaning}", width) + "\n" + _where_it_is(where)
        for meaning, where in _on_screen_first(places).items()
    )


def _on_screen_first(places: dict[str, list[str]]) -> dict[str, list[str]]:
    """The meanings with those of the first screen in front, which say so where there are others."""
    if len(places) < 2:
        return places
    words = {text: where for text, where in places.items() if not where}
    quoted = {
        text: [f"{one}{ON_SCREEN}" for one in where]
        for text, where in places.items()
        if not QUOTED.isdisjoint(where)
    }
    first = words | quoted
    return first | {text: where for text, where in places.items() if text not in first}


def _where_it_is(places: list[str]) -> str:
    """Where a name is met, on a line of its own; the places of a change say it in its meaning."""
    tables = [place for place in places if place not in ("whatif", "advice", "show", "try")]
    if "whatif" in places:
        return "Predicted by `traceanalyzer whatif PATH`.\n"
    if "try" in places:
        return "Timed by `traceanalyzer try`.\n"
    return f"  in {', '.join(dict.fromkeys(tables))}\n" if tables else ""


def _wrapped(text: str, width: int) -> str:
    """The lines of a text in that width; what continues an item stands below its text."""
    wrap = partial(textwrap.fill, width=width, break_on_hyphens=False)
    lines = text.split("\n")
    return "\n".join(
        wrap(line, subsequent_indent="  " if line.startswith("- ") else "") for line in lines
    )
