"""`traceanalyzer explain`."""

import textwrap
from functools import partial

import click

from traceanalyzer.cli.options import command


@command("explain")
@click.argument("words", metavar="[NAME]", nargs=-1)
def explain(words: tuple[str, ...]) -> None:
    """Say what a finding, a word of the report, a metric or a column means."""
    from traceanalyzer.cli.io.output import write
    from traceanalyzer.diagnosis.pages import finding_page, finding_pages

    name = " ".join(words)
    if not name:
        pages = finding_pages().values()
        widest = max(len(page.id) for page in pages)
        listed = (
            click.wrap_text(page.title, 80, f"{page.id:{widest}}  ", " " * (widest + 2))
            for page in pages
        )
        write("".join(f"{one}\n" for one in listed), None)
        return
    page = finding_page(name)
    write(
        page.text if page is not None else "".join(map(_meaning, name.split("+"))),
        None,
    )


def _meaning(name: str) -> str:
    """What a figure of that name means, wherever there is one. Raises UsageError."""
    from traceanalyzer.report.explain import explained, explanations

    places: dict[str, list[str]] = {}
    for entry in explained(name):
        unit = f" ({entry.unit})" if entry.unit else ""
        places.setdefault(f"{entry.meaning}{unit}", []).extend(
            [entry.where] if entry.where != "word" else []
        )
    if not places:
        from difflib import get_close_matches

        from traceanalyzer.diagnosis.pages import finding_pages

        known = [
            *(page.id for page in finding_pages().values()),
            *(entry.name for entry in explanations()),
        ]
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else "`traceanalyzer explain` lists the findings"
        raise click.UsageError(f"there is no finding, metric or column {name!r}; {hint}")
    return "".join(
        _wrapped(f"{name}: {meaning}") + "\n" + _where_it_is(where)
        for meaning, where in places.items()
    )


def _where_it_is(places: list[str]) -> str:
    """Where a name is met, on a line of its own; the places of a change say it in its meaning."""
    tables = [place for place in places if place not in ("whatif", "advice", "show")]
    if "whatif" in places:
        return "Predicted by `traceanalyzer whatif PATH`.\n"
    return f"  in {', '.join(tables)}\n" if tables else ""


def _wrapped(text: str) -> str:
    """The lines of a text in 80 columns; what continues an item stands below its text."""
    wrap = partial(textwrap.fill, width=80, break_on_hyphens=False)
    lines = text.split("\n")
    return "\n".join(
        wrap(line, subsequent_indent="  " if line.startswith("- ") else "") for line in lines
    )
