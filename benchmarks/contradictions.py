"""Whether reports agree with themselves: `python -m benchmarks.contradictions [FOLDER ...]`.

Every recording below the folders (by default those of the repository, and `../shared` where it is)
is asked in all ways: the report with the invariants of `tests/report/invariants.py`, its screen, its
page, `gaps`, `syncs`, `phases`, `whatif`, and of several ranks `fleet`. Each pair of answers that
disagree is a contradiction; it is printed with its recording, and counted by class. `--json FILE`
keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from html import unescape
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.report.invariants import NEAR, contradictions
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.rank_costs import STRAGGLER, held_up
from traceanalyzer.diagnosis.ranking import holds_no_gain, is_worth_showing
from traceanalyzer.diagnosis.remedies.advice import predictions
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.ingest import load
from traceanalyzer.report.build import report_of
from traceanalyzer.report.figures.step_times import recorded_ms
from traceanalyzer.report.format import figure
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline.opening import verdict
from traceanalyzer.report.page import ReportPage

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
FOLDERS = (
    ROOT / "sample_traces",
    ROOT / "tests" / "recordings",
    ROOT / "tests" / "data" / "gpu",
    ROOT / "tests" / "data" / "ranks4",
    ROOT / "tests" / "data" / "serving",
    ROOT / "benchmarks" / "ablations",
    ROOT / "benchmarks" / "ablations_ranks",
    SHARED / "traces",
    SHARED / "more",
    SHARED / "cases",
)
NAMED = (".json", ".json.gz", ".jsonl", ".sqlite", ".sqlite.gz", ".rpd", ".db", ".pb", ".pb.gz")
"""How names of recordings end."""
OTHERS = ("manifest", "environment", "unprofiled", "expected", "truth", "snapshot", "_dump_")
"""What names of files beside recordings hold."""
ONE_RUN = {"ranks8", "megatron8", "mega8", "dlrm8", "param-dlrm"}
"""Folders that hold the ranks of one run."""
RANK = re.compile(r"\.rank\d+(?=\.)")
CAPTURE = ("trace.rank*.json*", "nsys.sqlite*", "timings.rank*")
"""What a folder that is a capture has."""
LARGEST_MB = 40
CUT_GAPS = 0.02
"""Share of the step by which the sum of gaps may differ: a gap across the border of two steps is of
one of them."""
FIRST_WORDS = 60
"""Characters of a headline that each screen has: a terminal may leave out its last sentence."""
GRAPH_PAYS = 1.05
LITTLE = 0.01
ROUNDED = 0.006
"""Relative error of a figure of three digits, and more."""


@dataclass(frozen=True)
class Case:
    """One recording, or all ranks of one run."""

    name: str
    paths: tuple[Path, ...]

    @property
    def arguments(self) -> list[str]:
        """What a command is given."""
        return [str(path) for path in self.paths]


@dataclass(frozen=True)
class Contradiction:
    """Two answers that disagree."""

    recording: str
    check: str
    what: str


@dataclass(frozen=True)
class Answers:
    """What one recording is answered with."""

    case: Case
    report: Report
    measured: MeasuredRanks

    @property
    def device(self) -> int | None:
        """The device that the report speaks of."""
        return self.measured.critical.timed.device

    @property
    def whose(self) -> str:
        """How `gaps` says which rank a sentence is of; empty of one rank."""
        several = len(self.measured.ranks.rows) > 1
        return f"Rank {self.measured.critical.trace.rank}: " if several else ""

    def own(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of the rank, and of the device, that the report speaks of."""
        rank = self.measured.critical.trace.rank
        devices = {None, self.device}
        return [
            row for row in rows if row.get("rank") in (None, rank) and row.get("device") in devices
        ]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Rows of a table as a program gets them; empty where it has none."""
        done = run("show", name, *self.case.arguments, "--format", "json")
        return json.loads(done)[name] if done else []


def run(*arguments: str) -> str:
    """What a command prints; empty where it has no answer."""
    return CliRunner().invoke(cli, [*arguments, "-q"]).stdout


def cases(folders: Sequence[Path]) -> Iterator[Case]:
    """The recordings below these folders: captures and the ranks of a run as one."""
    for root in folders:
        for folder in sorted({root, *(path for path in root.rglob("*") if path.is_dir())}):
            yield from _cases_of(folder)


def _cases_of(folder: Path) -> Iterator[Case]:
    where = f"{folder.parent.name}/{folder.name}"
    captured = [path for pattern in CAPTURE for path in sorted(folder.glob(pattern))]
    files = [path for path in sorted(folder.glob("*")) if _is_recording(path)]
    if captured and (folder / "environment.json").exists():
        yield Case(where, (folder,))
    elif folder.name in ONE_RUN:
        yield Case(where, tuple(files))
    else:
        runs: dict[str, list[Path]] = {}
        for path in files:
            runs.setdefault(RANK.sub("", path.name), []).append(path)
        for name, paths in runs.items():
            yield Case(f"{where}/{name}", tuple(paths))


def _is_recording(path: Path) -> bool:
    named = path.name.endswith(NAMED) and not any(other in path.name for other in OTHERS)
    return named and path.is_file() and path.stat().st_size <= LARGEST_MB * 1e6


def on_the_report(answers: Answers) -> Iterator[str]:
    """What breaks an invariant of the report alone."""
    yield from contradictions(answers.report)


def on_ranges(answers: Answers) -> Iterator[str]:
    """Advice whose range holds a step as long as today's is marked."""
    step_ms = answers.report.summary.step_ms
    for advice in answers.report.recommendations:
        if step_ms and holds_no_gain(advice, step_ms) and not advice.may_not_help:
            yield f"ranges: {advice.remedy} to {advice.high_ms} of {step_ms} is not marked"


def on_the_screen(answers: Answers) -> Iterator[str]:
    """Verdict, headline and step are on the screen, in Markdown and on the page."""
    report = answers.report
    page = ReportPage(report)
    shown = {"screen": page.terminal(), "Markdown": page.markdown(), "page": page.html()}
    for name, text in shown.items():
        words = _words(unescape(re.sub(r"<[^>]+>", " ", text)) if name == "page" else text)
        for what in (verdict(report), report.summary.headline):
            if _words(what)[:FIRST_WORDS] not in words:
                yield f"{name}: lacks {what!r}"


def _words(text: str) -> str:
    return re.sub(r"[\s\\*`_]+", "", text).lower()


def on_gaps(answers: Answers) -> Iterator[str]:
    """`gaps` sums to the recorded and to the shown idle time, cause by cause."""
    report = answers.report
    if report.metrics.idle_ms is None or not report.devices:
        return
    yield from _gap_list(answers.own(answers.table("gaps")), report)
    known = report.metrics.unprofiled
    if known is not None and report.summary.basis == "unprofiled":
        text = " ".join(run("gaps", *answers.case.arguments).split())
        found = re.search(answers.whose + r"[^:]*?Without the profiler ([\d.,]+ [num]?s)", text)
        expected = figure(known.budget_ms.idle, "ms")
        if found and not _alike(found[1], expected):
            yield f"gaps: {found[1]} idle without the profiler, the report {expected}"


def _gap_list(gaps: list[dict[str, Any]], report: Report) -> Iterator[str]:
    """The gaps of steady steps are no longer than the recorded idle time of their cause: what is idle
    before the first and behind the last of these steps is none of theirs."""
    rows = [row for row in report.tables.get("steps", []) if not row.warmup]
    steady = {row.step for row in rows}
    time = report.metrics.step_time_ms
    idle = report.metrics.idle_ms
    if time is None or idle is None or len(steady) != time.count:
        return
    begin = min(row.start_ns for row in rows)
    end = max(row.end_ns for row in rows)
    of_cause: Counter[str] = Counter()
    for gap in gaps:
        if gap["step"] in steady:
            gap_end = gap["start_ns"] + gap["duration_ns"]
            of_cause[gap["cause"]] += max(min(gap_end, end) - max(gap["start_ns"], begin), 0)
    for cause, expected in vars(idle).items():
        total_ms = of_cause[cause] / 1e6 / time.count
        if total_ms > expected + CUT_GAPS * time.mean:
            yield f"gaps: sum to {total_ms:.4g} ms a step by {cause}, the report has {expected:.4g}"


UNITS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}


def _alike(a: str, b: str) -> bool:
    x, y = (float(t.split()[0].replace(",", "")) * UNITS[t.split()[1]] for t in (a, b))
    return abs(x - y) <= ROUNDED * max(abs(x), abs(y), 1e-4)


def on_syncs(answers: Answers) -> Iterator[str]:
    """What syncs cost is no more than the idle time after syncs, recorded and not."""
    report = answers.report
    rows = answers.own(answers.table("syncs"))
    if report.metrics.idle_ms is None:
        return
    known = report.metrics.unprofiled
    for column, idle in (
        ("gpu_idle_ms", report.metrics.idle_ms),
        ("unprofiled_idle_ms", None if known is None else known.idle_ms),
    ):
        total = sum(row.get(column) or 0.0 for row in rows)
        if idle is not None and total > idle.sync * 1.001 + NEAR * (recorded_ms(report) or 1.0):
            yield f"syncs: {column} sums to {total:.4g} of {idle.sync:.4g} ms"


def on_phases(answers: Answers) -> Iterator[str]:
    """No phase has more idle time than the step. Together they may: threads overlap."""
    report = answers.report
    if report.metrics.budget_ms is None:
        return
    known = report.metrics.unprofiled
    for row in answers.own(answers.table("phases")):
        for column, budget in (
            ("gpu_idle_ms", report.metrics.budget_ms),
            ("unprofiled_idle_ms", None if known is None else known.budget_ms),
        ):
            own = row.get(column) or 0.0
            if budget is not None and own > budget.idle * 1.001 + 1e-6:
                yield f"phases: {row['name']} {column} {own:.4g} of {budget.idle:.4g} ms"


def on_whatif(answers: Answers) -> Iterator[str]:
    """`whatif` starts from the report's steps, and has the report's advice with its figures."""
    report = answers.report
    try:
        found = predictions(answers.measured.run)
    except TraceAnalyzerError:
        return
    known = report.summary.step_ms
    base = found.unprofiled_step_ms
    if report.summary.basis == "unprofiled" and base and known and abs(base / known - 1) > 1e-6:
        yield f"whatif: starts from {base:.5g} ms, the report from {known:.5g}"
    if any("nothing is predicted" in note for note in found.notes):
        yield from (
            f"whatif: says that nothing is predicted, and predicts {one.id}"
            for one in found.scenarios
            if one.step_ms is not None
        )
    scenarios = {one.id: one for one in found.scenarios}
    for advice in report.recommendations:
        same = scenarios.get(str(advice.remedy))
        if same is None or same.step_ms is None or advice.predicted_step_ms is None:
            continue
        if same.step_ms > advice.predicted_step_ms * (1 + 1e-6):
            yield f"whatif: {advice.remedy} {same.step_ms:.5g} ms, advised {advice.predicted_step_ms:.5g}"
    yield from _on_free_launches(report, scenarios)


def _on_free_launches(report: Report, scenarios: dict[str, Any]) -> Iterator[str]:
    """A CUDA graph gains nothing where neither free launches nor no work of the host gain."""
    gains = [
        report.summary.step_ms - scenarios[name].step_ms
        for name in ("launches_free", "no_host_work")
        if report.summary.step_ms and name in scenarios and scenarios[name].step_ms is not None
    ]
    for advice in report.recommendations:
        if advice.remedy != "cuda_graph" or not gains or not report.summary.step_ms:
            continue
        speedup = advice.predicted_speedup or 1.0
        if speedup > GRAPH_PAYS and max(gains) < LITTLE * report.summary.step_ms:
            yield f"whatif: a graph is {speedup:.3g}x, and free launches gain {max(gains):.4g} ms"


def on_ledger(answers: Answers) -> Iterator[str]:
    """The ledger sums to the report's step and to the recorded one."""
    ledger = answers.measured.critical.ledger
    report = answers.report
    if ledger is None or report.summary.step_ms is None:
        return
    for name, total, expected in (
        ("step", ledger.step_ms, report.summary.step_ms),
        ("recorded", ledger.recorded_ms, recorded_ms(report)),
    ):
        if expected and abs(total / expected - 1) > 1e-3:
            yield f"ledger: the {name} sums to {total:.5g} of {expected:.5g} ms"


def on_ranks(answers: Answers) -> Iterator[str]:
    """`fleet` has the report's class, step, culprits and their cost."""
    report = answers.report
    ranks = report.tables.get("ranks", [])
    if len(ranks) < 2:
        return
    done = run("fleet", *answers.case.arguments, "--format", "json")
    if not done:
        yield "fleet: no answer"
        return
    job = json.loads(done)
    for name in ("bottleneck", "step_ms"):
        own = getattr(report.summary, name)
        if job["summary"][name] != (round(own, 6) if isinstance(own, float) else own):
            yield f"fleet: {name} {job['summary'][name]}, analyze {own}"
    named = held_up(answers.measured.critical, diagnose(answers.measured.critical))
    culprits = [one for one in job["culprits"] if one["cause"] != "slow_link"]
    costs = {one["rank"]: one["gain_ms"] for one in culprits}
    if costs.keys() != named.costs.keys():
        yield f"fleet: names {sorted(costs)}, analyze {sorted(named.costs)}"
    for one in culprits:
        own = named.costs.get(one["rank"], one["gain_ms"])
        if abs(own - one["gain_ms"]) > 1e-3 * max(own, 1e-3):
            yield f"fleet: rank {one['rank']} costs {one['gain_ms']:.4g} ms, analyze {own:.4g}"
        if named.cause is not None and one["cause"] not in (named.cause, "heavy_stage"):
            yield f"fleet: rank {one['rank']} by {one['cause']}, analyze by {named.cause}"
    advised = any(
        one.remedy == "fix_straggler" and is_worth_showing(one) for one in report.recommendations
    )
    found = any(one.id == STRAGGLER for one in report.findings)
    if (advised or found) != bool(culprits):
        yield f"fleet: {len(culprits)} ranks, analyze: finding {found}, advice {advised}"


CHECKS: tuple[Callable[[Answers], Iterator[str]], ...] = (
    on_the_report,
    on_ranges,
    on_the_screen,
    on_gaps,
    on_syncs,
    on_phases,
    on_whatif,
    on_ledger,
    on_ranks,
)


def answered(case: Case) -> Answers | None:
    """The report of a recording; None where it is none, or is of no time."""
    try:
        found = measured(load([*case.paths]))
        return Answers(case, report_of(found), found)
    except TraceAnalyzerError:
        return None


def main() -> None:
    """Ask all, print what disagrees, and how many do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--json", type=Path, help="where to keep what was found")
    parser.add_argument("--only", default="", help="recordings whose name holds this")
    options = parser.parse_args()
    found: list[Contradiction] = []
    asked = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRACEANALYZER_CACHE"] = folder
        for case in cases(options.folders or FOLDERS):
            if options.only not in case.name:
                continue
            answers = answered(case)
            if answers is None:
                continue
            asked += 1
            for check in CHECKS:
                for what in check(answers):
                    found.append(Contradiction(case.name, check.__name__, what))
                    print(f"{case.name}: {what}", flush=True)
    broken = {one.recording for one in found}
    print(f"{len(broken)} of {asked} recordings contradict themselves.")
    for name, count in Counter(one.check for one in found).most_common():
        print(f"  {name}: {count}")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main()
