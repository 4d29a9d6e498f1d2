"""What `compile` is promised, held against programs timed compiled: `python -m benchmarks.compiled
FOLDER ...`.

`compiled.json` has the medians of each program as it is and with `model.compile()` (default mode,
not the optimizer), timed after each other in one process on an H100. A FOLDER holds captures of
them, made by `benchmarks.pairs` on another day, so the ratios are compared. The second table
chooses how dear compiled code is, and how much must be gained, on the other programs alone.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import traceanalyzer as ta
from benchmarks.accuracy import Rows, Table, as_text
from benchmarks.remedies import CLOSE
from benchmarks.remedy_errors import BRINGS_NOTHING
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies import advice
from traceanalyzer.diagnosis.remedies.launches import compile_model
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.changes import compiling

TIMED = Path(__file__).with_suffix(".json")
FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)
"""Of what compiled code is said to cost the host ..."""
LEAST_GAINS = (0.04, 0.08, 0.12)
"""... and shares of the step that it must save to be advised, among which is chosen."""
IN_VAIN = 2
"""Kept promises that one of nothing outweighs."""


@dataclass(frozen=True)
class Answer:
    """What is said of a program: shares of its step; none where compiling is not advised."""

    name: str
    wanted: float
    place: int = 0
    promised: float | None = None
    low: float = 0.0
    high: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the promise is near the stopwatch's, or its range holds that."""
        if self.promised is None:
            return False
        return abs(self.promised / self.wanted - 1) <= CLOSE or self.low <= self.wanted <= self.high

    @property
    def in_vain(self) -> bool:
        """Whether it is advised and brings nothing."""
        return self.promised is not None and self.wanted >= BRINGS_NOTHING

    @property
    def worth(self) -> int:
        """What it counts when costs are chosen."""
        return int(self.right) - IN_VAIN * int(self.in_vain)


def programs(folders: list[Path]) -> Iterator[tuple[str, float, Measurements]]:
    """Those that were timed and have a capture, with the share of the step that is left when
    compiled."""
    for name, row in json.loads(TIMED.read_text(encoding="utf-8")).items():
        for folder in folders:
            if (folder / name).is_dir():
                m = measured(ta.load(folder / name)).critical
                if m.replay is not None:
                    yield name, row["compile_ms"] / row["base_ms"], m
                break


def answer(name: str, wanted: float, m: Measurements) -> Answer:
    """What is said of it now."""
    base = m.replay.base_ms if m.replay is not None else 0.0
    for place, one in enumerate(advice.advise(m), 1):
        p = one.prediction
        if one.remedy.id == "compile" and p.step_ms and p.low_ms and p.high_ms:
            return Answer(name, wanted, place, p.step_ms / base, p.low_ms / base, p.high_ms / base)
    return Answer(name, wanted)


def with_others(
    found: list[tuple[str, float, Measurements]],
) -> dict[tuple[float, float], list[Answer]]:
    """What is said of each program for each of the costs and least gains."""
    made = {}
    for factor in FACTORS:
        training, inference = (
            {
                key: compiling.Cost(one.launch * factor, one.call * factor)
                for key, one in costs.items()
            }
            for costs in (compiling.TRAINING, compiling.INFERENCE)
        )
        for gain in LEAST_GAINS:
            other = replace(compile_model, least_gain=gain)
            with (
                patch.object(compiling, "TRAINING", training),
                patch.object(compiling, "INFERENCE", inference),
                patch.object(advice, "REMEDIES", (other,)),
            ):
                for _, _, m in found:
                    if m.replay is not None:
                        m.replay._known.clear()
                made[factor, gain] = [answer(*one) for one in found]
    return made


def left_out(made: dict[tuple[float, float], list[Answer]]) -> list[Answer]:
    """Each program's answer with what suits the other programs best."""
    count = len(next(iter(made.values())))
    chosen = [
        max(
            made,
            key=lambda key: (
                sum(one.worth for j, one in enumerate(made[key]) if j != i),
                -abs(key[0] - 1),
            ),
        )
        for i in range(count)
    ]
    return [made[key][i] for i, key in enumerate(chosen)]


def counts(found: list[Answer]) -> str:
    """How many were advised, right and in vain."""
    advised = [one for one in found if one.promised is not None]
    held = sum(one.low <= one.wanted <= one.high for one in advised)
    return (
        f"{len(found)} programs: compiling is advised for {len(advised)}, right for {sum(o.right for o in advised)} "
        f"(ranges that hold: {held}), in vain for {sum(o.in_vain for o in advised)}."
    )


def table(found: list[Answer]) -> Table:
    """Every program, those that nothing is said of, too."""
    rows: Rows = [
        (
            f"`{one.name}`",
            f"{one.wanted:.2f}",
            "-"
            if one.promised is None
            else f"{one.place}: {one.promised:.2f} ({one.low:.2f} to {one.high:.2f})",
            ("brings nothing" if one.in_vain else "yes" if one.right else "no")
            if one.promised is not None
            else "",
        )
        for one in sorted(found, key=lambda one: one.wanted)
    ]
    columns = ("program", "step compiled over eager", "place and promise", "right")
    return "Compiled programs", columns, rows, counts(found)


def main() -> None:
    """Print the tables."""
    found = list(programs([Path(a) for a in sys.argv[1:]]))
    print(as_text(table([answer(*one) for one in found])))
    print("Chosen on the other programs alone:", counts(left_out(with_others(found))))


if __name__ == "__main__":
    main()
