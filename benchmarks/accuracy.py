"""Predictions held against the stopwatch: `python -m benchmarks.accuracy [FOLDER ...]
[--markdown]`.

A FOLDER holds `manifest.json` and recordings (`*.base`, `*.fix` or `*.without`), as
`benchmarks/ablations` does; the samples that carry their own timing are added. For each labelled
recording: fidelity of the replay, the estimated step time without a profiler against the measured
one, class; then, for each pair that differs in one thing, the step time predicted from `.base`
against the one measured without the thing. Errors count from the nearest of the stopwatch's own
rounds. `--markdown` puts the tables into docs/accuracy/tables.md.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import traceanalyzer as ta
from benchmarks.calibration import Sensitivity, cross_validated, sensitivity
from benchmarks.unprofiled import (
    idle_shares,
    range_of_scenario,
    range_of_step,
    scenarios_sentence,
    steps_sentence,
)
from traceanalyzer.analysis.groups.bounds import memory_bound_share
from traceanalyzer.diagnosis.classify import REMOVES, classify
from traceanalyzer.diagnosis.measurements import Measurements, measure_ranks
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.host_speed import replay_step_ms
from traceanalyzer.replay.scenario import (
    Scenario,
    buckets_of,
    combined,
)
from traceanalyzer.replay.scenarios import SCENARIOS
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.trace import WaitKind

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "traces"
ABLATIONS = ROOT / "benchmarks" / "ablations"
RANKS = ROOT / "benchmarks" / "ablations_ranks"
"""Two ranks, recorded blind; `ranks_scenarios` has the programs."""
SAMPLES = ROOT / "sample_traces"
PAGE = ROOT / "docs" / "accuracy" / "tables.md"
TABLES_BELOW = "\n---\n"
"""What the page has below this line is written by `--markdown`."""
REMEDIES_TITLE = "Remedies and what they brought, ms"
REMEDIES_BELOW = f"\n## {REMEDIES_TITLE}\n"
"""What follows it is written by `benchmarks.remedies`."""
REMOVED = {
    "host sync": "no_host_syncs",
    "host work": "no_host_work",
    "input wait": "input_ready",
    "copy": "copies_hidden",
    "launch cost": "launches_free",
    "communication": "communication_free",
    "straggler": "no_straggler",
}
"""What a manifest says was removed, by its first words, and the scenario that predicts it."""
KNOWN_PAIRS = {
    "kineto/python_between_ops.base": "no_host_work",
    "kineto/tiny_mlp_infer.base": "launches_free",
    "ranks2/tensor_parallel.base": "communication_free",
    "ranks2/straggler.base": "no_straggler",
    "kineto/adam_big.base": "fused_optimizer",
}
ORDINARY = (ROOT.parent / "shared" / "more" / "real",)
"""Captures of ordinary programs."""
NEAR_IDLE = 0.1


@dataclass(frozen=True)
class Recording:
    """A labelled recording: all its ranks, and how long its step takes without a profiler."""

    name: str
    workload: str
    paths: tuple[Path, ...]
    rounds_ms: tuple[float, ...]
    removes: str | None = None
    """The scenario of what its pair lacks."""
    without: tuple[float, ...] = ()
    """Rounds of the pair without it, ms."""

    @cached_property
    def measured(self) -> Measurements:
        """Measurements of the rank that a report speaks of."""
        return measured(ta.load(*self.paths)).critical

    @cached_property
    def replay(self) -> Replay:
        """Its replay, which does not know what the stopwatch said."""
        replay = Replay.of(self.measured.rated, None, self.measured.peers)
        assert replay is not None, self.name
        return replay

    def blind_to_waits(self) -> Self:
        """The same without the rows that say which stream waited for which."""
        other = replace(self)
        ranks = (self.measured, *self.measured.peers)
        traces = [
            replace(
                m.trace, waits=m.trace.waits.take(m.trace.waits.kind != WaitKind.STREAM_WAIT_EVENT)
            )
            for m in ranks
        ]
        other.__dict__["measured"] = measure_ranks(traces)[0]
        return other

    @property
    def step_ms(self) -> float:
        """MeasuredRanks step time."""
        return statistics.median(self.rounds_ms)


def error(value: float, rounds: Sequence[float]) -> float:
    """How far the value is from the nearest of the rounds, which it may lie between."""
    return value / min(max(value, min(rounds)), max(rounds)) - 1


def labelled(folder: Path) -> Iterator[Recording]:
    """The recordings of a folder with a manifest."""
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    for name, case in cases.items():
        stem = name.removesuffix(".base")
        pair = cases.get(f"{stem}.without") or cases.get(f"{stem}.fix") if name != stem else None
        scenario = case.get("scenario") or KNOWN_PAIRS.get(name)
        scenario = scenario or next(
            (s for k, s in REMOVED.items() if case.get("removes", "").startswith(k)), None
        )
        for suffix in ("", ".syncevents", ".stacks", ".noshapes"):
            ranks = sorted(folder.glob(f"{name}{suffix}.rank*.json.gz"))
            paths = ranks or [p for p in [folder / f"{name}{suffix}.json.gz"] if p.exists()]
            if paths:
                recording = Recording(
                    name + suffix, stem.split(".")[0], tuple(paths), tuple(case["rounds_ms"])
                )
                yield (
                    replace(recording, removes=scenario, without=tuple(pair["rounds_ms"]))
                    if pair
                    else recording
                )


def samples() -> Iterator[Recording]:
    """The captures of torch.profiler that hold their own timing."""
    for folder in sorted(SAMPLES.iterdir()):
        paths = sorted(folder.glob("trace.rank*.json.gz"))
        timing = folder / "unprofiled.rank0.json"
        if paths and timing.exists():
            said = json.loads(timing.read_text())
            name = f"sample_traces/{folder.name}"
            yield Recording(
                name, folder.name, tuple(paths), (said["step_time_ms"], said["wall_mean_ms"])
            )


def scenario_of(name: str) -> Scenario:
    """A scenario by its id: one of the list, buckets of a size, or several joined by +."""
    if name.startswith("buckets="):
        return buckets_of(float(name.removeprefix("buckets=").removesuffix("MB")))
    known = {scenario.id: scenario for scenario in SCENARIOS}
    return known[name] if name in known else combined(*(known[part] for part in name.split("+")))


def class_by_replay(m: Measurements, replay: Replay) -> str:
    """The class of bottleneck without which the step would be shortest."""
    steps = {
        name: replay_step_ms(
            [tape for tape in map(scenario.change, replay.typical) if tape is not None]
        )
        for name, scenario in REMOVES.items()
    }
    best = min(steps, key=steps.__getitem__)
    return (
        best if best != "device" else "memory" if memory_bound_share(m.rated) > 0.5 else "compute"
    )


def expected_classes() -> dict[str, str]:
    """The classes that the tests hold recordings to, by the names used here."""
    from tests import test_recordings, test_samples

    classes = {name.removesuffix(".json.gz"): cls for name, cls in test_recordings.CLASSES.items()}
    return classes | {f"sample_traces/{name}": cls for name, cls in test_samples.CLASSES.items()}


Rows = list[tuple[str, ...]]
Table = tuple[str, tuple[str, ...], Rows, str]
"""Title, columns, rows, and a sentence on them."""


def steps_table(recordings: list[Recording], held_out: dict[str, float]) -> Table:
    """Fidelity and the step time without a profiler."""
    rows: Rows = []
    fidelity = []
    errors = []
    strict = []
    for r in recordings:
        base = r.replay.base_ms
        blind = held_out[r.name]
        fidelity.append(abs(r.replay.fidelity_error))
        errors.append(abs(error(base, r.rounds_ms)))
        strict.append(abs(error(blind, r.rounds_ms)))
        rows.append(
            (
                r.name,
                f"{r.replay.fidelity_error:+.1%}",
                f"{r.step_ms:.3f}",
                f"{base:.3f}",
                f"{error(base, r.rounds_ms):+.1%}",
                f"{blind:.3f}",
                f"{error(blind, r.rounds_ms):+.1%}",
            )
        )
    text = (
        f"Fidelity: median {statistics.median(fidelity):.2%}, worst {max(fidelity):.1%}. "
        f"Step without a profiler: {_summary(errors)}; calibrated on other programs only: {_summary(strict)}."
    )
    columns = ("recording", "fidelity", "measured", "estimated", "error", "held out", "error")
    return "Step time without the profiler, ms", columns, rows, text


def unprofiled_table(recordings: list[Recording]) -> Table:
    """Idle share of the step without the profiler, and the ranges."""
    rows: Rows = []
    errors = []
    ranges = []
    pairs = []
    for r in recordings:
        blind = blind_to_stopwatch(r)
        shares = idle_shares(blind, r.step_ms)
        if shares is None or blind.replay is None or blind.unprofiled is None:
            continue
        true, estimated, recorded = shares
        errors.append(abs(estimated - true))
        ranges.append(range_of_step(blind.replay, r.workload, r.step_ms))
        if r.removes and r.without:
            truth = statistics.median(r.without)
            pairs.append(range_of_scenario(blind.replay, scenario_of(r.removes), r.workload, truth))
        low = blind.unprofiled.low_ms
        high = blind.unprofiled.high_ms
        rows.append(
            (
                r.name,
                f"{recorded:.1%}",
                f"{true:.1%}",
                f"{estimated:.1%}",
                f"{100 * (estimated - true):+.1f}",
                f"{r.step_ms:.3f}",
                f"{low:.3f} to {high:.3f}",
            )
        )
    near = sum(e <= NEAR_IDLE for e in errors) / len(errors)
    text = (
        f"Idle share from the recording alone: {100 * statistics.median(errors):.1f} points off in the median, within "
        f"10 points for {near:.0%} of {len(errors)}. {steps_sentence(ranges)} "
        f"{scenarios_sentence([p for p in pairs if p is not None])}"
    )
    columns = (
        "recording",
        "idle as recorded",
        "true",
        "estimated",
        "points off",
        "stopwatch, ms",
        "range, ms",
    )
    return "Idle time without the profiler, and ranges", columns, rows, text


def blind_to_stopwatch(r: Recording) -> Measurements:
    """Measurements that do not know what the capture's stopwatch said."""
    m = measured(ta.load(*r.paths)).critical
    m.__dict__["unprofiled_time"] = None
    return m


def captures(folder: Path) -> Iterator[Recording]:
    """Captures of ordinary programs that hold their own timing."""
    for path in sorted(folder.glob("**/unprofiled.rank0.json")):
        said = json.loads(path.read_text())
        traces = sorted(path.parent.glob("trace.rank*.json.gz"))
        if traces and said.get("steady", True):
            yield Recording(
                f"{folder.name}/{path.parent.name}",
                path.parent.name,
                tuple(traces),
                (said["step_time_ms"],),
            )


def pairs_table(recordings: list[Recording]) -> Table:
    """What was predicted and what was measured without the one thing."""
    rows: Rows = []
    errors = []
    for r in recordings:
        if r.removes is None or not r.without:
            continue
        p = r.replay.predict(scenario_of(r.removes))
        measured = statistics.median(r.without)
        shown = ("-", "-", "-")
        if p.step_ms is not None:
            errors.append(abs(error(p.step_ms, r.without)))
            shown = (
                f"{p.step_ms:.3f}",
                f"{p.low_ms:.3f} to {p.high_ms:.3f}",
                f"{error(p.step_ms, r.without):+.1%}",
            )
        rows.append((r.name, r.removes, f"{r.step_ms:.3f}", f"{measured:.3f}", *shown))
    text = f"Predicted step: {_summary(errors)}, worst {max(errors):.1%}."
    return (
        "Predicted and measured without one thing, ms",
        ("recording", "scenario", "with", "without", "predicted", "range", "error"),
        rows,
        text,
    )


def waits_table(recordings: list[Recording]) -> Table:
    """Recordings that say which stream waited for which, replayed with that and with what is
    inferred without it."""
    rows: Rows = []
    errors: dict[bool, list[float]] = {True: [], False: []}
    for r in recordings:
        if not (stream_waits(r.measured) and r.removes and r.without):
            continue
        found = _edges(r.measured)
        plain = r.blind_to_waits()
        guessed = _edges(plain.measured)
        cells = []
        for known, one in ((False, plain), (True, r)):
            p = one.replay.predict(scenario_of(r.removes))
            cells += [
                f"{one.replay.fidelity_error:+.2%}",
                f"{error(one.replay.base_ms, r.rounds_ms):+.1%}",
            ]
            cells.append("-" if p.step_ms is None else f"{error(p.step_ms, r.without):+.1%}")
            errors[known].append(abs(one.replay.fidelity_error))
        rows.append(
            (
                r.name,
                r.removes,
                str(len(found)),
                str(len(guessed)),
                str(len(found & guessed)),
                *cells,
            )
        )
    text = (
        "Which op waits for which op of another stream, as recorded (CUDA sync events) and as inferred without that. "
        f"Fidelity, median: {statistics.median(errors[False]):.2%} inferred, {statistics.median(errors[True]):.2%} "
        f"recorded; worst {max(errors[False]):.2%} and {max(errors[True]):.2%}."
    )
    columns = (
        "recording",
        "scenario",
        "recorded",
        "inferred",
        "in both",
        "inferred: fidelity",
        "step",
        "predicted",
        "recorded: fidelity",
        "step",
        "predicted",
    )
    return "Recorded and inferred waits between streams", columns, rows, text


def stream_waits(m: Measurements) -> bool:
    """Whether a recording says which stream waited for which event."""
    return bool((m.trace.waits.kind == WaitKind.STREAM_WAIT_EVENT).any())


def _edges(m: Measurements) -> set[tuple[int, int]]:
    """Pairs of ops, of which the first waits for the second."""
    found = m.started.starts.dependencies
    return {
        (i, on)
        for column in (found.awaited, found.also_awaited)
        for i, on in enumerate(column.tolist())
        if on >= 0
    }


def classes_table(recordings: list[Recording]) -> Table:
    """The class by the rules and by the replay, where one is known to be right."""
    expected = expected_classes()
    rows: Rows = [
        (
            r.name,
            expected[r.name],
            classify(r.measured).bottleneck,
            class_by_replay(r.measured, r.replay),
        )
        for r in recordings
        if r.name in expected
    ]
    right = [sum(row[i] == row[1] for row in rows) for i in (2, 3)]
    text = f"Right: {right[0]} of {len(rows)} by the largest part of the step, {right[1]} by the replay."
    return "Class", ("recording", "right", "by the largest part", "by the replay"), rows, text


def calibration_table(known: list[Sensitivity]) -> Table:
    """Models of the profiler's cost, each calibrated without the program that it is held
    against."""
    rows: Rows = []
    columns = ("model", "calibrated", "median error", "within 20 %")
    for model in cross_validated(known):
        within = sum(e < 0.2 for e in model.errors) / len(model.errors)
        rows.append(
            (
                model.name,
                model.calibrated,
                f"{statistics.median(model.errors):.1%}",
                f"{within:.0%}",
            )
        )
    programs = len({s.workload for s in known})
    return (
        "The profiler's cost",
        columns,
        rows,
        f"{len(known)} host-bound recordings of {programs} programs.",
    )


def _summary(errors: list[float]) -> str:
    within = sum(e < 0.2 for e in errors) / len(errors)
    return (
        f"median error {statistics.median(errors):.1%}, within 20 % {within:.0%} of {len(errors)}"
    )


def as_text(table: Table) -> str:
    """For the terminal."""
    title, columns, rows, text = table
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in (columns, *rows)
    ]
    return "\n".join([title, *lines, text, ""])


def as_markdown(table: Table) -> str:
    """For the documentation."""
    title, columns, rows, text = table
    lines = [f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *rows)]
    return "\n".join([f"## {title}", "", text, "", *lines, ""])


def main() -> None:
    """Print the tables, or put them into the documentation."""
    folders = [Path(a) for a in sys.argv[1:] if not a.startswith("-")]
    recordings = [
        r for folder in folders or [SHARED, ABLATIONS] if folder.exists() for r in labelled(folder)
    ]
    recordings += [] if folders else samples()
    known = {r.name: sensitivity(r.name, r.workload, r.replay, r.rounds_ms) for r in recordings}
    bound = [s for s in known.values() if s.host_bound]
    blind = cross_validated(bound)[0].shares
    held_out = {
        r.name: known[r.name].step_ms(blind[r.name]) if r.name in blind else r.replay.base_ms
        for r in recordings
    }
    ordinary = [
        r for folder in (() if folders else ORDINARY) if folder.exists() for r in captures(folder)
    ]
    tables: list[Any] = [
        unprofiled_table([*recordings, *ordinary]),
        steps_table(recordings, held_out),
    ]
    tables += [pairs_table(recordings), calibration_table(bound)]
    tables += [waits_table(recordings), classes_table(recordings)]
    if "--markdown" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        prose = page.split(TABLES_BELOW)[0]
        kept = page.partition(REMEDIES_BELOW)[2]
        made = prose + TABLES_BELOW + "\n" + "\n".join(map(as_markdown, tables))
        PAGE.write_text(f"{made}{REMEDIES_BELOW}{kept}" if kept else made, encoding="utf-8")
    else:
        print("\n".join(map(as_text, tables)))


if __name__ == "__main__":
    main()
