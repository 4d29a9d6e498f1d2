"""Writes what the documentation takes from the code, and puts right the output that it shows.

    python -m docs.generate

Pages are Markdown written by hand, with two kinds of places that are not:

- Between `<!-- NAME ARGUMENTS -->` and `<!-- end -->` stands what the function of that name in `FILLS` returns.
- In ```console blocks, lines after `$ traceanalyzer ...` are lines that the command prints, in that order; `...` stands
  for others. A line that it no longer prints is replaced by the one most like it that begins with the same word.

`tests/test_docs.py` fails where a page is not as this writes it.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import inspect
import itertools
import json
import re
import shlex
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.testing import CliRunner

from traceanalyzer.base.patterns import Regex
from traceanalyzer.cli import cli
from traceanalyzer.cli.commands import OLD
from traceanalyzer.cli.options import SELDOM
from traceanalyzer.export.event_columns import COMMON, OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.diagnosis.finding import Finding, Recommendation

ROOT = Path(__file__).resolve().parents[1]
FINDINGS = ROOT / "traceanalyzer" / "diagnosis" / "findings"
WIDTH = 100
"""Columns of the output that pages show."""
HELP_WIDTH = 80
PAGE_WIDTH = 120
LEFT_OUT = "..."
FILLED = re.compile(r"(<!-- (\w+)(.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
CONSOLE = re.compile(r"(?<=^```console\n)(.*?)(?=^```)", re.DOTALL | re.MULTILINE)
ALIKE = 0.5
"""Lines less alike than this are not the same line with another figure."""
BREACH = 3
"""Exit status of a check that found what it was asked to look for; all others but 0 are mistakes of
the page."""


def pages() -> list[Path]:
    """All Markdown files of the documentation."""
    first = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "skill" / "SKILL.md"]
    return [*first, *sorted((ROOT / "docs").rglob("*.md")), *sorted(FINDINGS.glob("*.md"))]


def filled(text: str) -> str:
    """The page with what the code says."""
    return FILLED.sub(lambda m: f"{m[1]}{FILLS[m[2]](*shlex.split(m[3]))}\n{m[4]}", text)


def with_output(text: str) -> str:
    """The page with the output that its commands print now."""
    with folder() as here:
        return CONSOLE.sub(lambda block: _put_right(block[1], here), text)


def _put_right(block: str, here: Path) -> str:
    lines = []
    for command, shown in commands_shown(block):
        printed = output(command, here, WIDTH).splitlines()
        lines += [f"$ {command}", *(_printed(line, printed) for line in shown)]
    return "".join(f"{line}\n" for line in lines)


def _printed(line: str, printed: list[str]) -> str:
    if line == LEFT_OUT or line in printed:
        return line
    alike = [other for other in printed if other.split()[:1] == line.split()[:1]]
    return next(iter(difflib.get_close_matches(line, alike, 1, ALIKE)), line)


def commands_shown(block: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of a console block, each with the lines shown of its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines shown of an output that it does not have, or not after the ones before them."""
    rest = iter(printed.splitlines())
    lost = []
    for line in shown:
        if line != LEFT_OUT and line not in rest:
            lost.append(line)
            rest = iter(printed.splitlines())
    return lost


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder with the recordings of the repository in it, for the commands of a page."""
    with tempfile.TemporaryDirectory() as name:
        for recordings in (
            "sample_traces",
            "tests/recordings",
            "tests/data",
            "benchmarks/ablations",
        ):
            linked = Path(name) / recordings
            linked.parent.mkdir(exist_ok=True)
            linked.symlink_to(ROOT / recordings)
        yield Path(name)


def output(command: str, here: Path, width: int) -> str:
    """What a `traceanalyzer` command prints, run in a folder. Raises RuntimeError where it
    fails."""
    program, *words = shlex.split(command)
    if program != "traceanalyzer":
        raise RuntimeError(f"not a command of ours: {command}")
    with contextlib.chdir(here):
        result = CliRunner().invoke(
            cli, words, env={"COLUMNS": str(width)}, prog_name="traceanalyzer"
        )
    if result.exit_code not in (0, BREACH):
        raise RuntimeError(f"{command}: {result.output}{result.exception!r}")
    return result.output


def commands(*names: str) -> str:
    """The `--help` of these commands, with all of their options."""
    parts: list[str] = []
    for name in names:
        command = cli
        for word in name.split():
            inner = command.get_command(click.Context(command), word)  # type: ignore[attr-defined]
            command = cast("click.Group", inner)
        parts += _help(name, command)
    return "\n\n".join(parts)


def all_commands() -> str:
    """What `--help` lists, and the names of earlier versions."""
    with folder() as here:
        listed = output("traceanalyzer --help", here, HELP_WIDTH).rstrip()
    rows = [f"| `{old}` | `{new}` |" for old, new in OLD.items()]
    table = "\n".join(["| before | now |", "|---|---|", *rows])
    return f"```text\n{listed}\n```\n\n{table}"


def _help(path: str, command: click.Command) -> Iterator[str]:
    has_more = any(opts & SELDOM for opts in (set(param.opts) for param in command.params))
    asked = "--help-all" if has_more else "--help"
    with folder() as here:
        text = output(f"traceanalyzer {path} {asked}", here, HELP_WIDTH).rstrip()
    yield f"{'#' * (2 + path.count(' '))} traceanalyzer {path}\n\n```text\n{text}\n```"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _help(f"{path} {name}", inner)


def figures(*measurements: str) -> str:
    """Figures of dataclasses (`package.module.Class`) with units and definitions."""
    from traceanalyzer.base.figures import definitions

    rows = [d for name in measurements for d in definitions(_named(name))]
    return _table(
        ("figure", "unit", "what it is"), [(f"`{d.name}`", d.unit, d.definition) for d in rows]
    )


def tables() -> str:
    """The columns of the report's tables."""
    from traceanalyzer.base.figures import definitions
    from traceanalyzer.report.table_entries import TABLES

    parts = []
    for table in TABLES:
        command = f"; all rows: `traceanalyzer show {table.command}`" if table.command else ""
        rows = [(f"`{d.name}`", d.unit, d.definition) for d in definitions(table.row)]
        about = f"`tables.{table.name}`{command}. {_first_sentence(table.row)}"
        parts.append(
            f"### {table.title}\n{about}\n\n{_table(('column', 'unit', 'what it is'), rows)}"
        )
    return "\n\n".join(parts)


def thresholds(*names: str) -> str:
    """Constants (`package.module.NAME`) with their values and reasons."""
    return "\n".join(_threshold(*name.rsplit(".", 1)) for name in names)


def _threshold(module: str, name: str) -> str:
    code = importlib.import_module(f"traceanalyzer.{module}")
    value = getattr(code, name)
    shown = (
        value.pattern
        if isinstance(value, re.Pattern | Regex)
        else ", ".join(value)
        if isinstance(value, tuple)
        else value
    )
    shown = f"{shown:,}" if isinstance(shown, int) else shown
    text = f"- `{name}` = `{shown}`: {_reason(inspect.getsource(code), name)}".rstrip()
    return textwrap.fill(
        text, PAGE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _reason(source: str, name: str) -> str:
    """The docstring below a constant, or the comment behind it."""
    body = ast.parse(source).body
    lines = source.splitlines()
    for node, below in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return " ".join(str(below.value.value).split())
            comment = lines[node.end_lineno - 1][node.end_col_offset :].partition("# ")[2]
            return f"{comment[0].upper()}{comment[1:]}." if comment else ""
    raise LookupError(name)


def finding(recording: str, finding_id: str) -> str:
    """A finding of a recording, and what is recommended for it, as the report has them."""
    import traceanalyzer as ta
    from traceanalyzer.report.outline.gains import findings_to_read
    from traceanalyzer.report.terminal.screen import render_terminal

    report = ta.analyze(ROOT / recording)
    text = render_terminal(report, WIDTH)
    found = _of_finding(finding_id, findings_to_read(report), _items(text, "Findings"))
    advised = _of_finding(finding_id, report.recommendations, _items(text, "Recommendations"))
    if not found:
        raise LookupError(f"{recording} has no finding {finding_id}")
    body = "\n\n".join([*found, *(["Recommended:"] if advised else []), *advised]).replace(
        f"{ROOT}/", ""
    )
    return f"`traceanalyzer analyze {recording}`\n```text\n{body}\n```"


def _of_finding(
    finding_id: str, entries: Sequence[Finding | Recommendation], items: list[str]
) -> list[str]:
    """The texts of the entries that have this id, or one that goes on after it."""
    pairs = zip(entries, items, strict=False)
    return [item for entry, item in pairs if f"{entry.id}-".startswith(f"{finding_id}-")]


def _items(text: str, title: str) -> list[str]:
    """The entries of a section of a report."""
    section = text.partition(f"\n{title}\n{'─' * len(title)}\n")[2]
    return [item.rstrip() for item in re.split(r"\n\n(?=\S)", section) if re.match(r"\d+\. ", item)]


def findings() -> str:
    """The findings there are, each with a link to its page."""
    from traceanalyzer.diagnosis.pages import finding_pages

    folder = FINDINGS.relative_to(ROOT)
    rows = [
        (f"[`{id_}`](../{folder}/{id_}.md)", page.title) for id_, page in finding_pages().items()
    ]
    return _table(("id", "what it says"), rows)


def logs() -> str:
    """The timing logs that are known."""
    from traceanalyzer.ingest.timing.formats import FORMATS

    known = {
        form.name: form.averaged or "The time of a line is that of a step."
        for form in reversed(FORMATS)
    }
    return _table(
        ("log", "its times"),
        [(form, known[form]) for form in dict.fromkeys(f.name for f in FORMATS)],
    )


def formats() -> str:
    """What can be read, what it tells and does not, and how it is recorded."""
    from traceanalyzer.ingest.formats import FORMATS

    rows = [(form.title, form.tells, form.cannot, form.record) for form in FORMATS]
    return _table(("recording", "tells", "cannot tell", "how to record it"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [
        head,
        ("---",) * len(head),
        *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _named(path: str) -> type[Any]:
    module, _, name = path.rpartition(".")
    found: type[Any] = getattr(importlib.import_module(f"traceanalyzer.{module}"), name)
    return found


def _first_sentence(what: Any) -> str:
    return " ".join((inspect.getdoc(what) or "").split("\n\n")[0].split())


def scenarios() -> str:
    """What `whatif` answers."""
    from traceanalyzer.replay.scenarios import SCENARIOS

    return _table(("scenario", "what is assumed"), [(f"`{s.id}`", s.basis) for s in SCENARIOS])


def remedies() -> str:
    """The changes of a program that are recommended, and where."""
    from traceanalyzer.diagnosis.remedies import REMEDIES

    rows = [(f"`{r.id}`", _first_sentence(r.offer), f"{r.least_gain:.0%}") for r in REMEDIES]
    return _table(("remedy", "offered", "least gain"), rows)


def screen(path: str) -> str:
    """The first screen that `analyze` shows of a recording."""
    command = f"traceanalyzer analyze {path}"
    return f"```text\n$ {command}\n{output(command, ROOT, WIDTH).rstrip()}\n```"


GALLERY = (
    *(
        "sync_bound",
        "launch_bound",
        "input_bound",
        "memory_bound",
        "communication_bound",
        "transfer_bound",
    ),
    *("host_bound", "straggler", "wasteful_kernels", "cuda_graph"),
)
"""Samples whose pages the documentation site has."""


def gallery() -> str:
    """The samples of the gallery, each with its headline and the first advice."""
    rows = ["| report | what it says | first advice |", "| --- | --- | --- |"]
    for name in GALLERY:
        said = json.loads(
            output(f"traceanalyzer analyze sample_traces/{name} --format json", ROOT, WIDTH)
        )
        first = next(iter(said["recommendations"]), {"remedy": None})["remedy"]
        advice = f"`{first}`" if first else ""
        rows.append(
            f"| [{name}](../sample_traces/{name}) | {said['summary']['headline']} | {advice} |"
        )
    return "\n".join(rows)


def promise(before: str, after: str, *scenarios: str) -> str:
    """What scenarios predicted for a program, and its step times without the profiler before and
    after the change."""
    from traceanalyzer.report.format import number

    asked = {
        path: json.loads(output(f"traceanalyzer whatif {path} --format json", ROOT, WIDTH))
        for path in (before, after)
    }
    was, now = (asked[path]["unprofiled_step_ms"] for path in (before, after))
    known = {one["id"]: one for one in asked[before]["scenarios"]}
    lines = [f"Measured without the profiler: {number(was)} to {number(now)} ms per step."]
    for name in scenarios:
        step, low, high = (known[name][key] for key in ("step_ms", "low_ms", "high_ms"))
        inside = "within" if low <= now <= high else "outside"
        off = f"{abs(now / step - 1.0):.0%} {'above' if now > step else 'below'} it"
        lines.append(
            f"Predicted by `{name}`: {number(step)} ms ({number(low)} to "
            f"{number(high)}); measured {off}, {inside} the range."
        )
    return "\\\n".join(lines)


def event_columns() -> str:
    """The columns of the tables of events."""
    rows = ["| table | column | meaning |", "| --- | --- | --- |"]
    rows += [f"| several | `{name}` | {meaning} |" for name, meaning in COMMON.items()]
    rows += [
        f"| `{table}` | `{name}` | {meaning} |"
        for table, own in OWN.items()
        for name, meaning in own.items()
    ]
    return "\n".join(rows)


FILLS: dict[str, Callable[..., str]] = {
    "event_columns": event_columns,
    "screen": screen,
    "promise": promise,
    "commands": commands,
    "all_commands": all_commands,
    "figures": figures,
    "tables": tables,
    "thresholds": thresholds,
    "finding": finding,
    "findings": findings,
    "logs": logs,
    "formats": formats,
    "scenarios": scenarios,
    "remedies": remedies,
    "gallery": gallery,
}


if __name__ == "__main__":
    for path in pages():
        before = path.read_text(encoding="utf-8")
        after = with_output(filled(before))
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(ROOT))
