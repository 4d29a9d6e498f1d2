"""The report in a terminal: the first screen (the answer in about 24 lines, which begins Markdown
and notebooks), and all of it, tables cut to their first rows."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from traceanalyzer.base import ELLIPSIS
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.report import whole
from traceanalyzer.report.brief import (
    LONGEST_HEADLINE,
    LONGEST_OF_MORE,
    brief,
    change_told,
    in_few_words,
    next_lines,
    shown_path,
)
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Paragraph,
    Part,
    Section,
    part_of_report,
)
from traceanalyzer.report.figures import step_times
from traceanalyzer.report.format import DEFAULT_WIDTH, figure, number, scale_for, scaled, with_unit
from traceanalyzer.report.model import Report
from traceanalyzer.report.names.kernel_labels import kernel_labels, label_width
from traceanalyzer.report.outline import breakdown, gains, opening, step_facts
from traceanalyzer.report.parts.in_brief import KEY_TABLES, environment, how_to_reproduce
from traceanalyzer.report.terminal import render
from traceanalyzer.report.terminal.drawing import TerminalPage

SHOWN_CHANGES = 3
SHOWN_COMMANDS = 3


class _Way(NamedTuple):
    """How a screen may be filled."""

    changes: int  # that are shown
    told: int  # that say what to do and how; the others say of it what fits on a line
    commands: int  # to type next


WAYS_TO_FIT = (
    _Way(SHOWN_CHANGES + 1, SHOWN_CHANGES + 1, SHOWN_COMMANDS),
    _Way(SHOWN_CHANGES, SHOWN_CHANGES, SHOWN_COMMANDS),
    _Way(SHOWN_CHANGES, SHOWN_CHANGES, 2),
    _Way(SHOWN_CHANGES, 2, 2),
    _Way(SHOWN_CHANGES, 1, 2),
    _Way(SHOWN_CHANGES, 1, 1),
)
"""The fullest first: the first that fits the screen is taken, else the last: what to do first is
said in full, be it a line or two more."""
SCREEN_LINES = 24  # of a terminal; of more a pager would show the end alone
SHOWN_CAVEATS = 2
BAR_WIDTH = 40
INDENT = 3  # of what is listed
STYLES = {
    "compute": "green",
    "exposed communication": "magenta",
    "exposed copy": "blue",
    "idle": "red",
}
ONE_BY_ONE = (
    "steps",
    "gaps",
)  # lists of single events, whose first rows say little; they have commands


def render_screen(
    report: Report,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    *,
    next_step: bool = True,
    given: str = "",
) -> str:
    """The answer as text `width` columns wide, with what to look at next. `given`: the one path that
    was given, where that is known."""
    above = TerminalPage(width, colour)
    _verdict(above, report)
    _culprit(above, report)
    _budget(above, report)
    text = ""
    for way in WAYS_TO_FIT:
        below = TerminalPage(width, colour)
        _changes(below, report, way, next_step=next_step)
        _caveats(below, report)
        if next_step:
            _next(below, report, way.commands, given)
        text = f"{above.text()}{below.text()}".lstrip("\n")
        if text.count("\n") <= SCREEN_LINES:
            break
    return text


def render_verdict(report: Report, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
    """The bottleneck, the step time and the headline alone."""
    page = TerminalPage(width, colour)
    _verdict(page, report)
    return page.text()


def _verdict(page: TerminalPage, report: Report) -> None:
    hardware = opening.hardware(report)
    page.line(
        "   ".join(
            [
                _title(report),
                *([hardware] if _fits_title(page, report) else []),
            ]
        ),
        "bold",
    )
    page.line(brief(report.summary.headline, LONGEST_HEADLINE))
    # What is missing is missing from all figures below.
    for sentence in opening.damaged_files(report):
        page.item("!", brief(sentence, LONGEST_HEADLINE), "yellow")


def _title(report: Report) -> str:
    cls, bracket, sure = opening.verdict(report).partition(" (")
    if opening.companion(report):
        return cls.upper()
    return f"{cls.upper()}{bracket}{sure}   {opening.step_times_in_words(report)}"


def _fits_title(page: TerminalPage, report: Report) -> bool:
    """Whether the first line has room for the hardware."""
    return cell_len(f"{_title(report)}   {opening.hardware(report)}") <= page.width


def _culprit(page: TerminalPage, report: Report) -> None:
    """Who is to blame, and the figures that people quote."""
    if report.summary.culprit:
        page.line(brief(report.summary.culprit))
    key = whole.known_in_brief(report)
    hardware = "" if _fits_title(page, report) else opening.hardware(report)
    both = " · ".join(filter(None, (hardware, key)))
    for line in filter(None, [both] if cell_len(both) <= page.width else [hardware, key]):
        page.line(line)
    for line in filter(None, (whole.memory_sentence(report), whole.first_step(report))):
        page.line(brief(line))


def _budget(page: TerminalPage, report: Report) -> None:
    parts = breakdown.shown_parts(report)
    if not parts:
        return
    page.line("")
    scale = scale_for(step_times.step_ms(report) or 0.0, "ms")
    labels = [f"  {part.label}" if part.within else part.label for part in parts]
    widest = max(map(cell_len, labels))
    for part in parts:
        name = f"  {part.label}" if part.within else part.label
        numbers = (
            f"{with_unit(number(scaled(part.ms, scale)), scale.label):>10} "
            f"{figure(part.share, 'share'):>6}  "
        )
        text = Text(f"  {name:<{widest}} {numbers}")
        longest = min(BAR_WIDTH, page.width - cell_len(text.plain))
        cells = round(min(part.share, 1.0) * longest)
        bar = ("▒" if part.within else "█") * max(cells, 1)
        text.append(bar, "dim" if part.within else STYLES.get(part.label, ""))
        page.draw(text)


def _changes(page: TerminalPage, report: Report, way: _Way, *, next_step: bool) -> None:
    """The first changes: so many with what to do, in a clause or two."""
    advised = gains.on_first_screen(report)[: way.changes]
    count = len(report.recommendations)
    page.line("")
    if not advised:
        page.line(gains.no_advice(report, has_next=next_step))
        return
    rest = ", all with --full" if next_step else ""
    page.line(gains.changes_title(advised, count, rest), "bold")
    for position, advice in enumerate(advised, 1):
        gain = gains.prediction_and_effort(report, advice)
        head = f"{gain} [{gains.id_of(advice)}]  "
        is_told = position <= way.told
        room = LONGEST_OF_MORE - cell_len(gain)
        action = (
            change_told(advice.action, position, room) if is_told else _on_line(page, advice, head)
        )
        page.item(f"{position}", f"{head}{action}", indent=1)
        if advice.instead and (is_told or position == 1):
            page.line(advice.instead, "dim", indent=INDENT)
    order = gains.rule_of_order(advised)
    if order and way.told >= len(advised):
        page.line(order, "dim", indent=1)


def _on_line(page: TerminalPage, advice: Recommendation, head: str) -> str:
    """What to do, as far as the line that `head` begins, or the next one, has room for how."""
    few = in_few_words(advice.action)
    room = page.width - INDENT - cell_len(head)
    if room < cell_len(few):
        room += page.width - INDENT  # of the next line
    text = brief(advice.action, max(room, 1))
    return few if len(text) < len(few) or text.endswith(ELLIPSIS) else text


def _caveats(page: TerminalPage, report: Report) -> None:
    caveats = opening.other_caveats(report)
    if caveats:
        page.line("")
    for caveat in caveats[:SHOWN_CAVEATS]:
        page.item("!", brief(caveat), "yellow")
    if len(caveats) > SHOWN_CAVEATS:
        page.line(f"  {len(caveats) - SHOWN_CAVEATS} more with --full", "dim")


def _next(page: TerminalPage, report: Report, most: int, given: str) -> None:
    """So many commands to type next, each a line that can be pasted."""
    page.line("")
    path = shown_path(report.inputs[0].path if len(report.inputs) == 1 else given, gains.OF_A_PATH)
    for line in next_lines(_ways_on(report, path)[:most]):
        page.uncut(line, "dim")


def _ways_on(report: Report, path: str) -> list[str]:
    """The commands behind `traceanalyzer`, the likeliest first."""
    table = gains.TABLES.get(report.summary.bottleneck, "") if report.devices else ""
    finding = gains.explained(report)
    return [
        *([f"{table} {path}"] if table else []),
        *([f"explain {finding.id}"] if finding is not None else []),
        f"analyze {path} --full",
    ]


def render_terminal(
    report: Report,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    of_compile: Sequence[Section] = (),
) -> str:
    """The report as text `width` columns wide, with figures of torch.compile. Definitions are in
    `explain`."""
    head = TerminalPage(width, colour)
    head.heading("Summary")
    screen = render_screen(report, width, colour, next_step=False)
    kernels = [row.name for row in report.tables.get("kernels", [])]
    labels = kernel_labels(kernels, label_width(width))
    below = render.document_terminal(
        Document("", sections_below(report, of_compile)), width, colour, labels
    )
    return f"{head.text().strip()}\n{screen}\n{below}"


def sections_below(report: Report, of_compile: Sequence[Section] = ()) -> list[Section]:
    """What stands below the first screen: the four parts in order, details at the end. Figures of
    torch.compile are the metrics of its log alone, and details of a recording."""
    is_log = bool(of_compile) and bool(opening.companion(report))
    found = gains.findings_to_read(report)
    without_advice = gains.without_advice(report)
    explained = (
        Paragraph(step_facts.EXPLAINED.format(found[0].id), "dim") if found else whole.NO_FINDING
    )
    advice = whole.recommendations(report) if report.recommendations else gains.no_advice(report)
    health = list[Part]()
    for path, kind, rank, what, item in opening.files(report):
        text = f"{path} ({kind}{'' if rank == '-' else f', rank {rank}'}): {what}"
        health.append(Paragraph(text, "yellow" if opening.is_damaged(item) else ""))
    return [
        *(part_of_report("Metrics", of_compile) if is_log else _metrics(report)),
        Section("Findings", [whole.findings(report), explained]),
        Section(
            "Recommendations",
            [advice, Paragraph(without_advice, "dim") if without_advice else None],
        ),
        *how_to_reproduce(report),
        Section(
            "Recording health",
            [*(health or [whole.NO_RECORDING]), Bullets(opening.all_notes(report))],
        ),
        *([] if is_log else [*_details(report), *of_compile]),
    ]


def _details(report: Report) -> list[Section]:
    if opening.companion(report) == opening.SERVING:
        return []  # its figures are the metrics, and it has no step
    return [
        Section("Details"),
        whole.figures_of_step(report),
        *whole.groups_of_figures(report),
        *whole.devices_overall(report),
        *whole.tables_with_rows(report, without=(*ONE_BY_ONE, *KEY_TABLES)),
    ]


def _metrics(report: Report) -> list[Section]:
    key = [
        *whole.key_figure_facts(report),
        *whole.step_time_facts(report),
        *whole.tables_with_rows(report, KEY_TABLES),
        *environment(report),
    ]
    nothing = whole.ONLY_SUMS if report.tables.get("profiled") else whole.NO_METRICS
    return [Section("Metrics", [] if key else [nothing]), *key]
