"""A hang in sentences, and as a document: one screen for a terminal, all of it as Markdown and as a
page."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from traceanalyzer.base import counted, dataclass, plural
from traceanalyzer.fleet.hang.findings import (
    HangFinding,
    HangStep,
    culprit_words,
    hang_findings,
    hang_steps,
    why,
)
from traceanalyzer.fleet.hang.model import (
    NO_DUMP,
    SITUATIONS,
    STOPPED_GPU,
    GroupState,
    Hang,
    HangCulprit,
    Inputs,
    ranks_text,
)
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    Item,
    Items,
    Paragraph,
    Part,
    Section,
    Table,
    Verdict,
)
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.report.printed import Printed, Result
from traceanalyzer.report.privacy.identifiers import HOST
from traceanalyzer.report.privacy.redact import redact_rows
from traceanalyzer.trace import Run

TITLE = "Hang"
SHOWN_CULPRITS = 3  # of a terminal's one screen
SHOWN_GROUPS = 3
SHOWN_NOTES = 2
SHOWN_STEPS = 3
NO_FINDING = "No finding."
NOTHING_TO_DO = "Nothing to do."
MOST_COLUMNS = 256  # of the matrix: more ranks share one, which shows the worst of them
MOST_PURPOSES = 40
COLOURS = {
    "complete": ("complete", "idle"),
    "waits": ("waits", "communication"),
    "victim": ("behind because of the culprits", "neutral"),
    "gpu": ("GPU behind", "more"),
    "cpu": ("CPU behind", "high"),
    "silent": ("no dump, or an empty one", "text"),
}
ONE = {"have": "it has", "its": "its", "it": "it"}
MANY = {"have": "they have", "its": "their", "it": "them"}


def hang_headline(hang: Hang) -> str:
    """The answer in a sentence."""
    verdict = hang.verdict
    same = [culprit for culprit in hang.culprits if culprit.kind == verdict.kind]
    chosen = [culprit.rank for culprit in same] or verdict.culprits
    ranks = ranks_text(chosen)
    operation = verdict.operation
    others = len({(culprit.operation, culprit.group) for culprit in same}) - 1
    if others > 0:
        operation += f" and {others} other {plural('operation', others)}"
    sentence = SITUATIONS[hang.situation]["sentence"].format(
        Ranks=ranks[:1].upper() + ranks[1:],
        ranks=ranks,
        group=verdict.group,
        waited_s=hang.waited_s,
        left=hang.left(chosen),
        operation=operation,
        others=counted(verdict.victims, "rank"),
        wait="waits" if verdict.victims == 1 else "wait",
        suspects=ranks_text(verdict.suspects) or "all",
        **(MANY if len(chosen) > 1 else ONE),
    )
    if hang.mismatches and verdict.kind == "mismatch":
        sentence += f" {_who_issued_what(hang)}"
    rest = [culprit for culprit in hang.culprits if culprit.kind != verdict.kind]
    for culprit in rest[:2]:
        sentence += f" Rank {culprit.rank}, too: {why(hang, [culprit])}."
    return sentence


def _who_issued_what(hang: Hang) -> str:
    """Both sides of the first mismatch, at the operation that is waited for where it is one."""
    first = hang.mismatches[0]
    for mismatch in hang.mismatches:
        if (mismatch.sequence, mismatch.group) == (hang.verdict.sequence, hang.verdict.group):
            first = mismatch
            break
    ranks = ranks_text(first.issued_by)
    others = ranks_text(first.others_by)
    issued = f"{ranks[:1].upper()}{ranks[1:]} issued {_shortened(first.issued)}"
    return f"{issued}, {others} {_shortened(first.others)}."


def _shortened(issued: str) -> str:
    """The first of what several ranks issued."""
    first, *more = issued.split("; ")
    return f"{first} and the like" if more else first


def hang_next_steps(hang: Hang) -> list[str]:
    """What to run now."""
    return [step.line for step in hang_steps(hang)]


def more_next_time(hang: Hang) -> list[str]:
    """The variables that would have recorded what is missing."""
    inputs = hang.inputs
    unframed = not hang.inputs.frames
    untimed = not inputs.timed and hang.situation == "stalled"
    known = {
        (
            "TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=60000: every "
            "rank dumps"
        ): inputs.missing,
        "TORCH_FR_BUFFER_SIZE=20000: older operations were overwritten": inputs.overwritten,
        "TORCH_NCCL_ENABLE_TIMING=1: which ranks have begun an operation": untimed,
        (
            "a dump with stack traces (onlyActive and includeStackTraces of the dump): the "
            "line of the program"
        ): unframed,
        (
            "`ncclras -v > FOLDER/ras.txt` while it hangs: hosts, and processes that are gone"
        ): not inputs.logs,
    }
    return [text for text, lacks in known.items() if lacks]


def notes(hang: Hang) -> Iterator[str]:
    """What the dumps lack, and what NCCL adds."""
    inputs = hang.inputs
    missing = hang.without_entries.get(NO_DUMP)
    if missing:
        yield (
            f"{len(missing):,} of {inputs.expected:,} ranks have no dump: {ranks_text(missing)}."
        )
    for file in inputs.unreadable[:3]:
        yield (
            f"{file.path}{'' if file.rank is None else f' (rank {file.rank})'} could not be "
            f"read: {file.why}."
        )
    if len(inputs.unreadable) > 3:
        yield f"{len(inputs.unreadable) - 3:,} more files could not be read."
    if inputs.repeated:
        yield (
            f"{len(inputs.repeated):,} dumps are of ranks that have another: the newest of "
            "each counts."
        )
    for process in hang.dead[:3]:
        yield f"NCCL's RAS does not reach: {process}."


@dataclass(frozen=True)
class HangPage(Result):
    """The answer about a hang."""

    hang: Hang
    full: bool = False  # whether a terminal gets all of it

    @property
    def printed(self) -> Printed:
        """One screen in a terminal; all of it, with the matrix of ranks and groups, on a page."""
        screen = None if self.full else Document(TITLE, _screen(self.hang))
        headline = hang_headline(self.hang)
        return Printed(
            Document(headline, _sections(self.hang, _waiting_lines(self.hang))),
            values(self.hang),
            screen=screen,
            page=Document(headline, _sections(self.hang, _waiting_table(self.hang))),
        )


def values(hang: Hang) -> dict[str, Any]:
    """What other programs rely on."""
    verdict = {name: None if value == "" else value for name, value in vars(hang.verdict).items()}
    same = ("culprits", "silent", "cpu_behind", "gpu_behind", "mismatches", "groups", "inputs")
    return {
        "verdict": verdict | {"headline": hang_headline(hang)},
        **{name: getattr(hang, name) for name in same},
        "findings": hang_findings(hang),
        "recommendations": hang_steps(hang),
        "next": hang_next_steps(hang),
        "next_time": more_next_time(hang),
        "notes": list(notes(hang)),
    }


def answer_parts(hang: Hang) -> list[Part | None]:
    """The headline with what it rests on."""
    verdict = hang.verdict
    facts = [("confidence", verdict.confidence)]
    if verdict.collective:
        facts.append(
            ("operation", f"{verdict.collective} #{verdict.sequence:,} {verdict.sizes}".strip())
        )
    if verdict.frame:
        facts.append(("issued at", verdict.frame))
    for name, ranks in (
        *hang.without_entries.items(),
        ("CPU behind", hang.cpu_behind),
        ("GPU behind", hang.gpu_behind),
    ):
        follows = name == "CPU behind" and verdict.kind in STOPPED_GPU and ranks
        why = ": held up by a GPU that stopped" if follows else ""
        if ranks:
            facts.append((name, f"{ranks_text(ranks)}{why}"))
    if hang.mismatches:
        first = hang.mismatches[0]
        on = ranks_text(first.issued_by)
        others = ranks_text(first.others_by)
        issued = f"{_shortened(first.issued)} on {on}, {_shortened(first.others)} on {others}"
        facts.append(("mismatch", issued))
    return [Verdict(hang_headline(hang)), Facts.of(*facts)]


def _screen(hang: Hang) -> list[Section]:
    """Who stopped, who waits, what to run now: the first of them."""
    standing = [group for group in hang.groups if group.stands_at]
    waiting = [_who_waits(group) for group in standing[:SHOWN_GROUPS]]
    if len(standing) > len(waiting):
        waiting.append(
            f"{len(standing) - len(waiting):,} more groups wait (analyze --full lists them)."
        )
    sections = [Section(TITLE, answer_parts(hang), untitled=True)]
    if len(hang.culprits) > 1:
        each = [_culprit(hang, one) for one in hang.culprits[:SHOWN_CULPRITS]]
        if len(hang.culprits) > len(each):
            each.append(f"{len(hang.culprits) - len(each):,} more (analyze --full lists them).")
        sections.append(Section("Culprits", [Bullets(each)], is_minor=True))
    if waiting:
        sections.append(Section("Who waits", [Bullets(waiting)], is_minor=True))
    shown = [Paragraph(text, "yellow") for text in list(notes(hang))[:SHOWN_NOTES]]
    steps = hang_next_steps(hang)[:SHOWN_STEPS]
    sections.append(Section("Next", [Bullets(steps, ">"), *shown], is_minor=True))
    return sections


def _culprit(hang: Hang, culprit: HangCulprit) -> str:
    last = f"; last issued {culprit.issued_last}" if culprit.issued_last else ""
    return f"{culprit_words(hang, culprit)}{last}"


def _who_waits(group: GroupState) -> str:
    """Where a group stands, how many of it wait, and for whom."""
    by = f", held up by {group.held_up_by}" if group.held_up_by else ""
    return f"{group.group}: {group.waiting} of {group.ranks} at {group.stands_at}{by}"


def _sections(hang: Hang, waiting: Sequence[Part]) -> list[Section]:
    """Summary, metrics, findings and recommendations; `waiting` are the groups that wait."""
    findings = [_finding(finding) for finding in hang_findings(hang)]
    steps = [_advice(step) for step in hang_steps(hang)]
    next_time = more_next_time(hang)
    return [
        Section("Summary", [*answer_parts(hang), Bullets(hang_next_steps(hang), ">")]),
        Section("Metrics", [Facts.of(*_figures(hang)), Drawing(partial(_matrix, hang))]),
        Section("Groups that wait", waiting, is_minor=True),
        Section("Findings", [Items(findings) if findings else NO_FINDING]),
        Section("Recommendations", [Items(steps) if steps else NOTHING_TO_DO]),
        Section("To know more next time", [Bullets(next_time)], is_minor=True),
        Section("Notes", [Bullets(list(notes(hang)))]),
    ]


def _waiting_lines(hang: Hang) -> list[Part]:
    """The groups that wait, a line each: names of groups are long."""
    return [Bullets([_who_waits(group) for group in hang.groups if group.stands_at])]


def _waiting_table(hang: Hang) -> list[Part]:
    """The groups that wait, to be sorted and searched."""
    return [Table([group for group in hang.groups if group.stands_at])]


def _figures(hang: Hang) -> list[tuple[str, str]]:
    """How many ranks and groups there are, and how many of them wait."""
    inputs = hang.inputs
    recorded = inputs.expected - len(hang.silent)
    waiting = sum(1 for group in hang.groups if group.stands_at)
    behind = [
        (name, counted(len(ranks), "rank"))
        for name, ranks in (("CPU behind", hang.cpu_behind), ("GPU behind", hang.gpu_behind))
    ]
    return [
        ("ranks that left entries", f"{recorded:,} of {inputs.expected:,}"),
        ("ranks that wait", f"{hang.verdict.victims:,}"),
        ("groups that wait", f"{waiting:,} of {len(hang.groups):,}"),
        *behind,
    ]


def _finding(finding: HangFinding) -> Item:
    evidence = [(one.metric, f"{one.value}", one.where) for one in finding.evidence]
    how_sure = "nothing else explains it" if finding.sure else "likely"
    return Item(finding.title, [(f"{how_sure} · {finding.id}", "")], evidence=evidence)


def _advice(step: HangStep) -> Item:
    return Item(step.action, details=[step.command] if step.command else [])


def _matrix(hang: Hang) -> Markup | None:
    """Ranks from left to right, purposes of groups from top to bottom."""
    purposes = list(hang.cells)[:MOST_PURPOSES]
    ranks = sorted({rank for row in hang.cells.values() for rank in row})
    if not purposes or not ranks:
        return None
    wide = math.ceil((ranks[-1] + 1) / MOST_COLUMNS)
    worst = [_worst_of_columns(hang, purpose, wide) for purpose in purposes]
    marks = [_rects(worst, purposes, state, wide) for state in COLOURS]
    columns = math.ceil((ranks[-1] + 1) / wide)
    names = [str(column * wide) for column in range(columns)]
    caption = "The state of each rank in its group of each purpose" + (
        f"; {wide} ranks share a column, which shows the worst of them." if wide > 1 else "."
    )
    plot = Plot(
        [one for one in marks if one.boxes],
        Axis("rank", names=names),
        Axis(names=purposes),
        down=True,
    )
    return chart_place(Chart("hang", "Ranks and groups", caption, plot, 90 + 26 * len(purposes)))


def _worst_of_columns(hang: Hang, purpose: str, wide: int) -> dict[int, str]:
    """The worst state of the ranks of each column. A rank that is behind and named by nobody is a
    victim of those who are."""
    named = {culprit.rank for culprit in hang.culprits}
    worst = list(COLOURS)
    columns: dict[int, str] = {}
    for rank, recorded in hang.cells[purpose].items():
        is_victim = recorded in ("gpu", "cpu") and named and rank not in named
        state = "victim" if is_victim else recorded
        before = columns.get(rank // wide, "complete")
        columns[rank // wide] = max(before, state, key=worst.index)
    return columns


def _rects(
    worst: Sequence[dict[int, str]], purposes: Sequence[str], state: str, wide: int
) -> Rects:
    name, colour = COLOURS[state]
    places = [
        (x, y) for y, columns in enumerate(worst) for x, found in columns.items() if found == state
    ]

    def box(x: int, y: int) -> Box:
        last = f" to {x * wide + wide - 1}" if wide > 1 else ""
        hint = f"rank {x * wide}{last}, {purposes[y]}: {name}"
        return Box(x - 0.48, x + 0.48, y - 0.46, y + 0.46, hint)

    return Rects(name, colour, [box(x, y) for x, y in places])


def redacted_hang(hang: Hang, patterns: Sequence[re.Pattern[str]] = ()) -> Hang:
    """The report without paths, hosts and users; names that match a pattern become `name-1`,
    `name-2`, ..."""
    culprits = [replace(one, host=HOST) if one.host else one for one in hang.culprits]
    dead = [re.sub(r"on node \S+", f"on node {HOST}", text) for text in hang.dead]
    hidden = replace(hang, culprits=culprits, dead=dead, inputs=_renamed(hang.inputs))
    cleaned: Hang
    cleaned, purposes = redact_rows([hidden, list(hang.cells)], Run(()), patterns)
    cells: dict[str, dict[int, str]] = {}
    for purpose, row in zip(purposes, hang.cells.values(), strict=True):
        cells[purpose] = cells[purpose] | row if purpose in cells else row
    return replace(cleaned, cells=cells)


def _renamed(inputs: Inputs) -> Inputs:
    unreadable = [replace(one, path=f"dump-{i}") for i, one in enumerate(inputs.unreadable, 1)]
    repeated = [replace(one, path=f"repeated-{i}") for i, one in enumerate(inputs.repeated, 1)]
    logs = [f"log-{i}" for i, _ in enumerate(inputs.logs, 1)]
    return replace(inputs, path="dumps", unreadable=unreadable, repeated=repeated, logs=logs)
