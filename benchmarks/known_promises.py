"""Promises about the programs of a review: `python -m benchmarks.known_promises [NAME ...]`.

`../shared/more/first_sight` has programs that others wrote from the remedies' texts alone, recorded
unchanged and timed without and with a remedy. A promise is right by the review's rule, which is that
of `benchmarks.first_sight`: the remedy is among the first three, and its range holds the stopwatch's
median or the promised step is within 15 % of it. Where several remedies are what the change did,
the one whose promise is right counts, else the nearest. A larger batch is asked for at the size that
was timed. Where the review found that a change brings nothing, its paired ratio stands for the
stopwatch's medians. `near` are promises that are off by at most a fifth of what was gained.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.first_sight import Score, as_markdown, report_of, score_of
from benchmarks.known_facts import MORE

FIRST_SIGHT = MORE / "first_sight"
STANDS_FOR = {"keep_on_device": "remove_syncs"}
"""Remedies that are the same change: what stays on the GPU, nobody waits for."""
NEAR = 0.2
"""Share of the timed gain by which a promised step may be off to be near."""
AT_ONCE = 2  # analyses


def accepted(case: dict[str, Any]) -> list[str]:
    """The remedies that are what the change did."""
    named = case["remedies_expected"]
    return [*named, *(STANDS_FOR[one] for one in named if one in STANDS_FOR)]


def score_of_case(name: str, case: dict[str, Any], recording: Path) -> Score | None:
    """How the promise of a program's change fared, ms of a step as the report counts them; None
    where it was not changed."""
    if "fix" not in case:
        return None
    steps = case["report_steps_per_step"]
    base = statistics.median(case["base"]["rounds_ms"]) / steps
    fixed = statistics.median(case["fix"]["rounds_ms"]) / steps
    if not case["pays"]:
        fixed = base * case["fix"]["paired_ratio"]
    report = report_of(recording)
    found = [score_of(name, remedy, base, fixed, report) for remedy in accepted(case)]
    times = case["as_much_work_per_fix_step"]
    found = [_at_batch(one, recording, times) if times > 1 else one for one in found]
    return max(found, key=lambda one: (one.is_right, -off_by(one)))


def _at_batch(score: Score, recording: Path, times: int) -> Score:
    """The promise for a batch so many times as large, for today's samples."""
    if score.place is None:
        return score
    asked = ["whatif", str(recording), "--batch", f"{times}x", "--format", "json"]
    command = [sys.executable, "-m", "traceanalyzer", *asked]
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    (said,) = json.loads(done.stdout)["settings"]
    promised, low, high = (said[key] / times for key in ("step_ms", "low_ms", "high_ms"))
    return replace(score, promised_ms=promised, low_ms=low, high_ms=high)


def off_by(score: Score) -> float:
    """How far the promised step is from the timed one, ms; infinite where none is promised."""
    if score.promised_ms is None:
        return math.inf
    return abs(score.promised_ms - score.fixed_ms)


def is_near(score: Score) -> bool:
    """Whether a right promise is off by at most a fifth of what was gained."""
    return score.is_right and off_by(score) <= NEAR * (score.base_ms - score.fixed_ms)


def known_scores(names: list[str], folder: Path) -> Iterator[Score]:
    """The scores of these programs, all without a name; `folder` takes the recordings."""
    cases = json.loads((FIRST_SIGHT / "manifest.json").read_text())["cases"]
    with tarfile.open(FIRST_SIGHT / "recordings.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    chosen = [name for name in cases if not names or name in names]
    recordings = [next(folder.glob(f"*/{name}.base")) for name in chosen]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        of_cases = map(cases.get, chosen)
        yield from filter(None, pool.map(score_of_case, chosen, of_cases, recordings))


def main() -> None:
    """Print the table and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    with tempfile.TemporaryDirectory() as folder:
        scores = list(known_scores(parser.parse_args().names, Path(folder)))
    print(as_markdown(scores))
    paying = [one for one in scores if one.pays]
    print(f"\n{sum(map(is_near, paying))} of {len(paying)} promises that pay are near.")


if __name__ == "__main__":
    main()
