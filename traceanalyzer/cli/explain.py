"""`traceanalyzer explain`."""

from __future__ import annotations

import click


@click.command(short_help="Say what a finding means and how it is decided.")
@click.argument("finding_id", metavar="[ID]", required=False)
def explain(finding_id: str | None) -> None:
    """Say what a finding means, how it is decided, what to do about it, with an example from a real recording.

    \b
    Examples:
      traceanalyzer explain
      traceanalyzer explain launch-bound

    ID stands beside each finding of a report, and is `id` in its JSON. Without one all findings are listed.
    """
    from difflib import get_close_matches

    from traceanalyzer.cli.output import write
    from traceanalyzer.report.explain import finding_page, finding_pages

    if finding_id is None:
        pages = finding_pages()
        widest = max(len(page.id) for page in pages)
        write("".join(f"{page.id:{widest}}  {page.title}\n" for page in pages), None)
        return
    page = finding_page(finding_id)
    if page is None:
        near = get_close_matches(finding_id, [page.id for page in finding_pages()], 1)
        hint = f"did you mean {near[0]}?" if near else "`traceanalyzer explain` lists all"
        raise click.UsageError(f"there is no finding {finding_id!r}; {hint}")
    write(page.text, None)
