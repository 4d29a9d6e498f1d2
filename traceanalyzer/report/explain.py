"""What everything means: figures, columns, words, changes that `whatif` predicts."""

import dataclasses
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from traceanalyzer.analysis.ranks.pipeline.slowdown import (
    PipelineSlowdown,
    PipelineStep,
    WorkerRow,
)
from traceanalyzer.base import dataclass, definitions, regex
from traceanalyzer.diagnosis.effort import usual_effort
from traceanalyzer.diagnosis.pages import FindingPage
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.diagnosis.remedies.remedy import entries, text
from traceanalyzer.replay.prediction import assumptions
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.scenarios import SCENARIOS
from traceanalyzer.report.format import DEFAULT_WIDTH, label
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.breakdown import OF_COMMUNICATION, OF_COPIES
from traceanalyzer.report.outline.step_facts import GLOSSARY
from traceanalyzer.report.table_entries import TABLES

ASSUMES = "assumes"
CASES = "What to do: one of these, which `traceanalyzer analyze PATH` names for your program"
WORD = "word"  # the place of what is no figure, column or change
THRESHOLD = regex(r"^- `([A-Z][A-Z_]{2,60})` = `([^`\n]{1,60})`: ", re.MULTILINE)
UNITS = {"_NS": " ns", "_MS": " ms", "_S": " s", "_BYTES": " bytes"}
LINK = regex(r"\[([^\]\n]{1,200})\]\([^)\n]{1,300}\)")
FENCE = "```"
FILLED_IN = regex(r"\{[^{}]*\}")  # what a text takes from the program that it is written for
WITHOUT_A_REPLAY = {
    "accumulate_gradients": (
        "half the batch, and two of them for each update",
        "memory-activations",
    ),
    "checkpoint": ("activations recomputed in the backward pass, not kept", "memory-activations"),
    "chunked_loss": ("logits and loss computed for some rows at a time", "memory-large-loss"),
    "expandable_segments": (
        "segments that grow in place of many fixed ones",
        "memory-fragmentation",
    ),
    "faster_kernels": (
        "other kernels for the work furthest from its roofline: fused operators, other shapes or layouts",
        "gpu-busy",
    ),
    "fix_compile_error": ("what cannot be compiled is mended, or left out", "compile-failed"),
    "free_tensors": ("no tensor of the leaking line is kept across steps", "memory-leak"),
    "mark_dynamic": (
        "a size that changes is declared, so that one graph fits all",
        "recompilation",
    ),
    "remove_graph_breaks": ("the line that splits the graph goes", "graph-break"),
    "shard": ("ranks hold a part each of state, gradients, parameters", "oom-optimizer-state"),
    "warm_cache": ("compiled code is kept from start to start", "compile-cache"),
}
"""Changes without a replay, most of them against findings on memory and compilation: what each is,
and the finding."""


@dataclass(frozen=True)
class Explanation:
    """A figure, a column or a word with its meaning. `where` is its place: `metrics.budget_ms`,
    `table kernels`."""

    name: str
    where: str
    unit: str
    meaning: str


def explanations() -> list[Explanation]:
    """All of them: words, changes that `whatif` predicts, figures of the report, columns of the
    tables."""
    source = Path(__file__).with_name("glossary.toml")
    glossary = tomllib.loads(source.read_text(encoding="utf-8"))
    known = (*GLOSSARY, *glossary.items(), *OF_COMMUNICATION.items(), *OF_COPIES.items())
    words = [Explanation(word, WORD, "", meaning) for word, meaning in known]
    return [
        *words,
        *_changes(),
        *_changes_elsewhere(),
        *_tables(),
        *_figures(Report, ""),
        *_columns(),
        *_of_pipelines(),
    ]


def page_in_words(page: FindingPage, width: int = DEFAULT_WIDTH) -> str:
    """The page of a finding without Markdown, in lines of that width: its title first, thresholds
    as numbers."""
    lines = list[str]()
    for is_code, block in _blocks(_with_numbers(page).splitlines()):
        if is_code:
            lines += [f"  {line}".rstrip() for line in block]
        else:
            lines += _filled([_without_marks(line) for line in block], width)
    return "\n".join(lines).strip() + "\n"


def _with_numbers(page: FindingPage) -> str:
    """The text of a page, thresholds as numbers in place of their names."""
    written = page.text.replace(f"# {page.id}\n\n", f"{page.id}: ", 1)
    for name, value in THRESHOLD.findall(written):
        unit = next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")
        written = written.replace(f"`{name}` = `{value}`", f"{value}{unit}")
        written = written.replace(f"`{name}`", f"{value}{unit}")
    return written


def _blocks(lines: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """Paragraphs, headings, items of lists, blank lines and code, and whether each is code."""
    block = list[str]()
    is_code = False
    for line in lines:
        is_fence = line.lstrip().startswith(FENCE)
        if is_fence or (not is_code and _begins(line)) or (block and _stands_alone(block[-1])):
            yield is_code, block
            block = []
        if is_fence:
            is_code = not is_code
        else:
            block.append(line)
    yield is_code, block


def _begins(line: str) -> bool:
    """Whether a line of prose is no continuation of the one above it."""
    return not line.strip() or line.startswith(("#", "- ", "<!--"))


def _stands_alone(line: str) -> bool:
    """Whether nothing continues a line."""
    return not line.strip() or line.startswith("#")


def _filled(paragraph: list[str], width: int) -> list[str]:
    """The lines of a paragraph, or of an item of a list, in that width; a blank one of none."""
    text = " ".join(line.strip() for line in paragraph)
    indent = "  " if text.startswith("- ") else ""
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    return lines if lines else [""]


def _without_marks(line: str) -> str:
    """A line of Markdown as it is read aloud."""
    heading = line.lstrip("#")
    if heading != line:
        return f"{heading.strip()}:"
    return LINK.sub(r"\1", line).replace("**", "").replace("`", "")


def _changes() -> Iterator[Explanation]:
    """Changes that `whatif` predicts, and that are recommended."""
    for scenario in SCENARIOS:
        yield Explanation(scenario.id, "whatif", "", _assumed(scenario))
    for remedy in REMEDIES:
        offered = " ".join((remedy.offer.__doc__ or "").split()).replace("Where", "where", 1)
        effort = usual_effort(remedy.id, "")
        lines = [
            text(remedy.id, "what"),
            f"Against: {remedy.finding} (`explain {remedy.finding}`)."
            + (f" Effort: {effort}." if effort else ""),
            f"Recommended {offered}",
        ]
        ways = _ways_of(remedy.id)
        if len(ways) > 1:
            lines += [f"{CASES}:", *(f"- {way}" for way in ways)]
        elif ways:
            lines += ["What to do:", f"- {ways[0]}"]
        assumed = _assumptions_of(remedy.id)
        if assumed:
            lines += ["Its replay assumes:", *(f"- {clause}" for clause in assumed)]
        yield Explanation(remedy.id, "whatif", "", "\n".join(lines))


def _assumptions_of(remedy: str) -> list[str]:
    """What a remedy's replay assumes as a rule, else in any of its forms, with N for what a program
    makes of it."""
    entry = entries()[remedy]
    names = [ASSUMES] if ASSUMES in entry else [one for one in entry if one.startswith(ASSUMES)]
    texts = [entry[name] for name in names if isinstance(entry[name], str)]
    plain_texts = [FILLED_IN.sub(_a_number, " ".join(one.split())) for one in texts]
    return list(dict.fromkeys(clause for one in plain_texts for clause in assumptions(one)))


def _a_number(place: re.Match[str]) -> str:
    return "N%" if place[0].endswith("%}") else "N"


def _assumed(scenario: Scenario) -> str:
    """A scenario in a sentence: an ideal with the change that comes nearest."""
    if scenario.kind != "ideal":
        same = f"; advice calls it `{scenario.nearest}`" if scenario.nearest else ""
        return f"a change that can be made{same}. Assumes: {scenario.basis}."
    nearest = f"; the nearest change is `{scenario.nearest}`" if scenario.nearest else ""
    return f"an ideal that no change quite reaches{nearest}. Assumes: {scenario.basis}."


def _ways_of(remedy: str) -> list[str]:
    """What a remedy says to do, of programs with PyTorch; what has figures in it is written for a
    program."""
    found = []
    for name, entry in entries()[remedy].items():
        if name == "what" or name.startswith(ASSUMES):
            continue
        way = entry.get("pytorch", "") if isinstance(entry, dict) else entry
        if way and "{" not in way:
            found.append(" ".join(way.split()))
    return found


def _changes_elsewhere() -> Iterator[Explanation]:
    """Changes that are not replayed: their gain is in bytes, in the time of a start, or a bound."""
    for name, (what, finding) in WITHOUT_A_REPLAY.items():
        meaning = f"a change: {what}. See `explain {finding}`."
        yield Explanation(name, "advice", "", meaning)


def _tables() -> Iterator[Explanation]:
    """Tables that `show` prints."""
    for table in TABLES:
        if table.command:
            names = [column.name for column in definitions(table.row)]
            columns = ", ".join(RENAMED.get(name, name) for name in names)
            meaning = f"{table.title}, a table. `show {table.command} PATH` prints it; its columns are {columns}."
            yield Explanation(table.asked_as, "show", "", meaning)


def _columns() -> Iterator[Explanation]:
    for table in TABLES:
        yield from columns_explained(table.row, f"table {table.asked_as}")


def _of_pipelines() -> Iterator[Explanation]:
    """Figures of a pipeline's log, which only the answer on many ranks has."""
    for kind in (PipelineSlowdown, WorkerRow, PipelineStep):
        for d in definitions(kind):
            yield Explanation(d.name, "pipeline of many ranks", d.unit, d.definition)


def columns_explained(kind: type[Any], where: str) -> Iterator[Explanation]:
    """The columns of a table that a command makes for itself."""
    for column in definitions(kind):
        name = RENAMED.get(column.name, column.name)
        yield Explanation(name, where, column.unit, column.definition)


def explained(name: str, others: Iterable[Explanation] = ()) -> list[Explanation]:
    """The entries of that name, with or without its place (`budget_ms.idle`, `idle`), case and
    hyphens aside; else those that reports print by it (`floor` for `floor_ms`). `others`: of what is
    no part of a report."""
    wanted = _folded(name)
    known = [*explanations(), *others]
    by_name = (
        one for one in known if f".{_folded(f'{one.where}.{one.name}')}".endswith(f".{wanted}")
    )
    found = list(by_name)
    if all(one.where == WORD for one in found):
        found += [one for one in known if _folded(label(one.name, one.unit)) == wanted]
    return list(dict.fromkeys(found))


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


def _figures(kind: type[Any], where: str) -> Iterator[Explanation]:
    hints = get_type_hints(kind)
    for d in definitions(kind):
        name = RENAMED.get(d.name, d.name)
        yield Explanation(name, where or "report", d.unit, d.definition)
        for inner in _dataclasses_in(hints[d.name]):
            yield from _figures(inner, f"{where}.{name}" if where else name)


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from _dataclasses_in(inner)
