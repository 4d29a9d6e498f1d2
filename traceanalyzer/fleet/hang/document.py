"""A hang as a document: one screen for a terminal, all of it as Markdown and as a page."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.fleet.hang.model import Hang, ranks_text
from traceanalyzer.fleet.hang.words import headline, more_next_time, next_steps, notes
from traceanalyzer.report.document import Bullets, Document, Drawing, Facts, Line, Part, Section, Table, Verdict
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.report.printed import Printed, Result
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.report.privacy.secrets import HOST
from traceanalyzer.trace import Run

TITLE = "Hang"
SHOWN_CULPRITS, SHOWN_GROUPS, SHOWN_NOTES, SHOWN_STEPS = 3, 3, 2, 3
"""Of a terminal's one screen."""
MOST_COLUMNS = 256
"""Of the matrix: more ranks share one, which shows the worst of them."""
MOST_PURPOSES = 40
COLOURS = {
    "complete": ("complete", "idle"), "waits": ("waits", "communication"), "gpu": ("GPU behind", "more"),
    "cpu": ("CPU behind", "high"), "silent": ("silent", "text"),
}  # fmt: skip


@dataclass(frozen=True)
class HangPage(Result):
    """The answer about a hang."""

    hang: Hang

    @property
    def printed(self) -> Printed:
        """One screen in a terminal; all of it, with the matrix of ranks and groups, on a page."""
        screen = Document(TITLE, _screen(self.hang))
        return Printed(Document(headline(self.hang), _sections(self.hang)), values(self.hang), screen=screen)


def values(hang: Hang) -> dict[str, Any]:
    """What other programs rely on."""
    return {
        "verdict": {name: None if value == "" else value for name, value in vars(hang.verdict).items()}
        | {"headline": headline(hang)},
        "culprits": hang.culprits,
        "silent": hang.silent,
        "cpu_behind": hang.cpu_behind,
        "gpu_behind": hang.gpu_behind,
        "mismatches": hang.mismatches,
        "groups": hang.groups,
        "inputs": hang.inputs,
        "next": next_steps(hang),
        "next_time": more_next_time(hang),
        "notes": list(notes(hang)),
    }


def _answer(hang: Hang) -> list[Part | None]:
    verdict = hang.verdict
    facts = [("confidence", verdict.confidence)]
    if verdict.collective:
        facts.append(("operation", f"{verdict.collective} #{verdict.sequence:,} {verdict.sizes}".strip()))
    if verdict.frame:
        facts.append(("issued at", verdict.frame))
    for name, ranks in (("silent", hang.silent), ("CPU behind", hang.cpu_behind), ("GPU behind", hang.gpu_behind)):
        facts.append((name, ranks_text(ranks) or "none"))
    if hang.mismatches:
        one = hang.mismatches[0]
        facts.append(("mismatch", f"{one.issued} on {ranks_text(one.ranks) or 'half'}, else {one.others}"))
    return [Verdict(headline(hang)), Facts.of(*facts)]


def _screen(hang: Hang) -> list[Section]:
    standing = [group for group in hang.groups if group.stands_at]
    waiting = [
        f"{group.group}: {group.waiting} of {group.ranks} at {group.stands_at}"
        + (f", held up by {group.held_up_by}" if group.held_up_by else "")
        for group in standing[:SHOWN_GROUPS]
    ]
    if len(standing) > SHOWN_GROUPS:
        waiting.append(f"{len(standing) - SHOWN_GROUPS:,} more groups wait (-o hang.html, --format json).")
    found = [Section(TITLE, _answer(hang), untitled=True)]
    if len(hang.culprits) > 1:
        found.append(Section("Culprits", [Bullets(_each(hang)[:SHOWN_CULPRITS])], is_minor=True))
    if waiting:
        found.append(Section("Who waits", [Bullets(waiting)], is_minor=True))
    last: list[Part | None] = [Bullets(next_steps(hang)[:SHOWN_STEPS], ">")]
    last += [Line(text, "yellow") for text in list(notes(hang))[:SHOWN_NOTES]]
    return [*found, Section("Next", last, is_minor=True)]


def _each(hang: Hang) -> list[str]:
    return [
        f"rank {one.rank}" + (f" on {one.host}" if one.host else "") + f": {one.kind.replace('_', ' ')} at "
        f"{one.operation} of {one.group}" + (f"; last issued {one.issued_last}" if one.issued_last else "")
        for one in hang.culprits
    ]


def _sections(hang: Hang) -> list[Section]:
    texts = more_next_time(hang)
    next_time: list[Part | None] = ["To know more next time:", Bullets(texts)] if texts else []
    found = (
        (True, Section(TITLE, [*_answer(hang), *notes(hang)])),
        (hang.culprits, Section("Culprits", [Table(hang.culprits)])),
        (True, Section("Next", [Bullets(next_steps(hang)), *next_time])),
        (hang.mismatches, Section("Operations that differ", [Table(hang.mismatches)])),
        (hang.groups, Section("Groups", [Drawing(partial(_matrix, hang)), Table(hang.groups)])),
    )
    return [section for holds, section in found if holds]


def _matrix(hang: Hang) -> Markup | None:
    """Ranks from left to right, purposes of groups from top to bottom."""
    purposes = list(hang.cells)[:MOST_PURPOSES]
    ranks = sorted({rank for row in hang.cells.values() for rank in row})
    if not purposes or not ranks:
        return None
    wide = math.ceil((ranks[-1] + 1) / MOST_COLUMNS)
    marks = [_rects(hang, purposes, state, wide) for state in COLOURS]
    names = [str(column * wide) for column in range(math.ceil((ranks[-1] + 1) / wide))]
    caption = "The state of each rank in its group of each purpose" + (
        f"; {wide} ranks share a column, which shows the worst of them." if wide > 1 else "."
    )
    plot = Plot([one for one in marks if one.boxes], Axis("rank", names=names), Axis(names=purposes), down=True)
    return chart_place(Chart("hang", "Ranks and groups", caption, plot, 90 + 26 * len(purposes)))


def _rects(hang: Hang, purposes: Sequence[str], state: str, wide: int) -> Rects:
    worst = list(COLOURS)
    name, colour = COLOURS[state]
    places: list[tuple[int, int]] = []
    for y, purpose in enumerate(purposes):
        columns: dict[int, str] = {}
        for rank, found in hang.cells[purpose].items():
            columns[rank // wide] = max(columns.get(rank // wide, "complete"), found, key=worst.index)
        places += [(x, y) for x, found in columns.items() if found == state]

    def hint(x: int, y: int) -> str:
        last = f" to {x * wide + wide - 1}" if wide > 1 else ""
        return f"rank {x * wide}{last}, {purposes[y]}: {name}"

    return Rects(name, colour, [Box(x - 0.48, x + 0.48, y - 0.46, y + 0.46, hint(x, y)) for x, y in places])


NODE = re.compile(r"on node \S+")


def redacted(hang: Hang, patterns: Sequence[re.Pattern[str]] = ()) -> Hang:
    """The report without paths, hosts and users; names that match a pattern become `name-1`, `name-2`, ..."""
    inputs = replace(
        hang.inputs,
        path="dumps",
        unreadable=[replace(one, path=f"dump-{i}") for i, one in enumerate(hang.inputs.unreadable, 1)],
        repeated=[replace(one, path=f"repeated-{i}") for i, one in enumerate(hang.inputs.repeated, 1)],
        logs=[f"log-{i}" for i, _ in enumerate(hang.inputs.logs, 1)],
    )
    hidden = replace(
        hang,
        culprits=[replace(one, host=HOST if one.host else None) for one in hang.culprits],
        dead=[NODE.sub(f"on node {HOST}", text) for text in hang.dead],
        inputs=inputs,
    )
    cleaned: Hang = redact_rows(hidden, Run(()), patterns)
    return cleaned
