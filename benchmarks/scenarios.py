"""Named scenarios held against the stopwatch: `python -m benchmarks.scenarios [FOLDER ...]
[--kinds]`.

For each pair that differs in one thing: the recorded step, the step without the profiler (estimated
from the recording alone, and by the stopwatch), what the scenario predicts from each of them, and
what the stopwatch read. So an error has two parts: of the estimate that the prediction starts from,
and of the change. `--kinds`: recordings with sync events, stacks or without shapes, too; else the
plain ones. Errors count from the nearest of the stopwatch's own rounds.
"""

import statistics
import sys
from pathlib import Path

from benchmarks.accuracy import (
    ABLATIONS,
    RANKS,
    SHARED,
    Recording,
    Rows,
    Table,
    as_text,
    error,
    labelled,
    scenario_of,
)
from traceanalyzer.analysis.tables.timing import UnprofiledTime
from traceanalyzer.replay.whatif import Replay

CLOSE = 0.1
"""What users are promised: within this of the stopwatch."""


def timed(r: Recording) -> Replay:
    """The replay of a recording whose program was timed, as a log or `collect` has it."""
    log = UnprofiledTime(r.step_ms, min(r.rounds_ms), max(r.rounds_ms))
    replay = Replay.of(r.measured.rated, log, r.measured.peers)
    assert replay is not None, r.name
    return replay


def scenarios_table(recordings: list[Recording]) -> Table:
    """A row a pair."""
    rows: Rows = []
    alone = []
    with_log = []
    held = 0
    for r in recordings:
        if r.removes is None or not r.without:
            continue
        first, second = (replay.predict(scenario_of(r.removes)) for replay in (r.replay, timed(r)))
        truth = statistics.median(r.without)
        if (
            first.step_ms is None
            or second.step_ms is None
            or first.low_ms is None
            or first.high_ms is None
        ):
            rows.append((r.removes, r.name, *["-"] * 10))
            continue
        inside = first.low_ms <= truth <= first.high_ms
        alone.append(error(first.step_ms, r.without))
        with_log.append(error(second.step_ms, r.without))
        held += inside
        rows.append(
            (
                r.removes,
                r.name,
                *(f"{v:.3f}" for v in (r.replay.recorded_ms, r.replay.base_ms, r.step_ms)),
                f"{error(r.replay.base_ms, r.rounds_ms):+.1%}",
                f"{first.step_ms:.3f}",
                f"{second.step_ms:.3f}",
                f"{min(r.without):.3f} {truth:.3f} {max(r.without):.3f}",
                f"{alone[-1]:+.1%}",
                f"{with_log[-1]:+.1%}",
                "yes" if inside else "no",
            )
        )
    close = [sum(abs(e) <= CLOSE for e in errors) for errors in (alone, with_log)]
    text = (
        f"Within {CLOSE:.0%}: {close[0]} of {len(alone)} from the recording alone, {close[1]} with the program's own "
        f"step time; {held} ranges hold the stopwatch's median."
    )
    columns = (
        "scenario",
        "recording",
        "recorded",
        "estimated",
        "stopwatch",
        "error",
        "predicted",
        "with its time",
        "stopwatch: least, median, most",
        "error",
        "with its time",
        "in range",
    )
    return "Scenarios and what the stopwatch read, ms", columns, rows, text


def main() -> None:
    """Print the table."""
    folders = [Path(a) for a in sys.argv[1:] if not a.startswith("-")] or [SHARED, ABLATIONS, RANKS]
    found = [r for folder in folders if folder.exists() for r in labelled(folder)]
    plain = [r for r in found if r.name.endswith(".base")]
    print(as_text(scenarios_table(found if "--kinds" in sys.argv else plain)))


if __name__ == "__main__":
    main()
