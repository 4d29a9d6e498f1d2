"""Promises about programs that nobody has seen, sealed before a stopwatch runs.

    python -m benchmarks.first_sight record OUT [--set SET] [--nsys PATH]  on a machine with a GPU
    python -m benchmarks.first_sight score FOLDER                          anywhere

`record`: each program of a set of `benchmarks.pairs` is recorded unchanged, as `collect torch` does;
the reports are written to `OUT/predictions.json` and their SHA-256 to `OUT/sealed.txt`; only then
is each program timed without and with its remedy. With `--nsys` each is recorded by Nsight Systems,
too. `score` compares the sealed predictions with the stopwatch, and with what the present version
says of the kept captures, where they are; of both recorders it says where they disagree.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.recorders import compared, reports_of

if TYPE_CHECKING:
    from benchmarks.pairs.__main__ import Process
    from benchmarks.pairs.program import Good, Pair

FIRST = 3
"""Recommendations that a person looks at."""
CLOSE = 0.15
"""A promise whose range misses the median is right within this of it."""
NOTHING = 0.95
"""A remedy brings nothing whose step is no shorter than this share of the base's."""
FALSE_PROMISE = 1.1
"""A promise above this speedup is false where the remedy brings nothing."""


def report_of(capture: Path) -> dict[str, Any]:
    """What `analyze` says of a capture; what went wrong, where it says nothing."""
    command = [sys.executable, "-m", "traceanalyzer", "analyze", str(capture), "--format", "json"]
    done = subprocess.run([*command, "--no-cache"], capture_output=True, timeout=300, check=False)
    if done.returncode:
        return {"error": done.stderr.decode(errors="replace").strip()}
    return json.loads(done.stdout)


def seal(captures: Path, out: Path) -> None:
    """Write all reports, and the digest that shows that they did not change afterwards."""
    folders = sorted(folder for folder in captures.iterdir() if folder.is_dir())
    with ThreadPoolExecutor(4) as pool:
        reports = dict(zip((f.name for f in folders), pool.map(report_of, folders), strict=True))
    text = json.dumps(reports)
    (out / "predictions.json").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (out / "sealed.txt").write_text(f"{digest}  predictions.json\n")
    print("sealed", digest, flush=True)


def watched_by_nsys(pair: Pair | Good, folder: Path, nsys: str) -> Process:
    """A process of a program that Nsight Systems records from the first measured step on."""
    from benchmarks.pairs.__main__ import Process

    report = str(folder / pair.name)
    command = [nsys, "profile", "--trace", "cuda,nvtx,cublas,cudnn", "--output", report]
    ranged = ["--capture-range", "cudaProfilerApi", "--capture-range-end", "stop"]
    graphs = ["--cuda-graph-trace", "node"]
    under = [*command, *ranged, *graphs]
    return Process(pair, ("nsys",), folder, together=False, under=under)


def export(folder: Path, nsys: str | None) -> None:
    """The databases of the reports, without what is not a recording's, among the captures."""
    from traceanalyzer.collect.profilers.nsys import scrub

    def exported(report: Path) -> None:
        into = folder / "captures" / f"{report.stem}.nsys"
        into.mkdir(exist_ok=True)
        database = into / "nsys.sqlite"
        words = ["export", "--type", "sqlite", "--output", str(database), str(report)]
        done = subprocess.run([nsys or "nsys", *words], capture_output=True, check=False)
        if done.returncode:
            print(report.stem, done.stderr.decode(errors="replace")[-300:])
            return
        scrub(database)
        with gzip.open(into / "nsys.sqlite.gz", "wb", 6) as packed:
            packed.write(database.read_bytes())
        database.unlink()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(exported, sorted(folder.glob("*.nsys-rep"))))


def record(options: argparse.Namespace) -> None:
    """Record all, seal what is predicted of them, time all."""
    from benchmarks.pairs.__main__ import LOADING_S, Process, load, pack, run
    from benchmarks.pairs.sets import programs

    os.environ |= {"PAIRS_DEVICE": options.device} | ({"PAIRS_QUICK": "1"} if options.quick else {})
    options.out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + options.seconds
    pairs = [p for p in programs(options.set) if not options.names or p.name in options.names]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "captures").mkdir()
        recording = [Process(p, ("record",), folder, together=False) for p in pairs]
        timing = []
        watched = [watched_by_nsys(p, folder, options.nsys) for p in pairs if options.nsys]
        try:
            load(recording, LOADING_S)
            run(recording, options.out, until)
            load(watched, LOADING_S)
            run(watched, options.out, until)
            export(folder, options.nsys)
            seal(folder / "captures", options.out)
            timing = [Process(p, tuple(p.timed), folder, together=False) for p in pairs]
            load(timing, LOADING_S)
            run(timing, options.out, until)
        finally:
            for process in (*recording, *watched, *timing):
                process.end()
        for line in pack(folder / "captures", options.out):
            print("left out:", line)


@dataclass(frozen=True)
class Score:
    """How the promise of one change fared."""

    program: str
    remedy: str
    base_ms: float
    fixed_ms: float
    place: int | None
    """Place of the remedy among the recommendations, from 1."""
    promised_ms: float | None
    low_ms: float | None
    high_ms: float | None
    step_ms: float | None
    """The report's step of the unchanged program."""

    @property
    def pays(self) -> bool:
        """Whether the stopwatch says that the remedy helps."""
        return self.fixed_ms < NOTHING * self.base_ms

    @property
    def holds(self) -> bool | None:
        """Whether the range holds the stopwatch's median."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms <= self.fixed_ms <= self.high_ms

    @property
    def is_right(self) -> bool:
        """Among the first three and within the range, or close; not promised where it brings
        nothing."""
        if not self.pays:
            return not self.is_false
        if self.place is None or self.place > FIRST or self.promised_ms is None:
            return False
        return bool(self.holds) or abs(self.promised_ms / self.fixed_ms - 1) <= CLOSE

    @property
    def is_false(self) -> bool:
        """Whether a gain is promised that is not there."""
        if self.pays or self.promised_ms is None or self.step_ms is None:
            return False
        return self.step_ms / self.promised_ms > FALSE_PROMISE


def score_of(program: str, remedy: str, base: float, fixed: float, report: dict[str, Any]) -> Score:
    """The score of one remedy in one report."""
    advised = report.get("recommendations", [])
    places = (i for i, one in enumerate(advised, 1) if one["remedy"] == remedy)
    place = next(places, None)
    found = advised[place - 1] if place else {}
    each_step = {
        "time_ms": found.get("predicted_step_ms"),
        "low_ms": found.get("low_ms"),
        "high_ms": found.get("high_ms"),
    }
    promise = found.get("as_much_work") or each_step  # a larger batch: the time of today's samples
    return Score(
        program=program,
        remedy=remedy,
        base_ms=base,
        fixed_ms=fixed,
        place=place,
        promised_ms=promise["time_ms"],
        low_ms=promise["low_ms"],
        high_ms=promise["high_ms"],
        step_ms=report.get("summary", {}).get("step_ms"),
    )


def scores(timed: dict[str, dict[str, Any]], reports: dict[str, dict[str, Any]]) -> list[Score]:
    """The scores of all programs that were timed and recorded."""
    found = []
    for name, row in timed.items():
        rounds = {key.removesuffix("_ms"): row[key] for key in row if key.endswith("_ms")}
        if "base" not in rounds or name not in reports:
            continue
        base = statistics.median(rounds.pop("base"))
        for version, times in rounds.items():
            remedy = row["remedy"] if version == "fix" else version
            fixed = statistics.median(times)
            found.append(score_of(name, remedy, base, fixed, reports[name]))
    return found


def as_markdown(found: list[Score]) -> str:
    """A table of all scores, and the totals above it."""
    paying = [score for score in found if score.pays]
    ranged = [score for score in paying if score.holds is not None]
    idle = [score for score in found if not score.pays]
    among = sum(score.place is not None and score.place <= FIRST for score in paying)
    lines = [
        f"{among} of {len(paying)} remedies that pay are among the first three; "
        f"{sum(score.is_right for score in paying)} promises are right; "
        f"{sum(bool(score.holds) for score in ranged)} of {len(ranged)} ranges hold; "
        f"{sum(score.is_false for score in idle)} of {len(idle)} remedies that bring nothing are "
        f"promised above {FALSE_PROMISE}x.",
        "",
        "| program | remedy | base → fixed, ms | our step | place | promise (range), ms | right |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_line(score) for score in found]
    return "\n".join(lines)


def _line(score: Score) -> str:
    star = "" if score.pays else "*"
    step = "-" if score.step_ms is None else f"{score.step_ms / score.base_ms - 1:+.0%}"
    promise = "-"
    if score.promised_ms is not None:
        promise = f"{score.promised_ms:.3g} ({score.low_ms:.3g} to {score.high_ms:.3g})"
    right = "yes" if score.is_right else "**no**"
    times = f"{score.base_ms:.3g} → {score.fixed_ms:.3g}"
    cells = (
        score.program + star,
        score.remedy,
        times,
        step,
        str(score.place or "-"),
        promise,
        right,
    )
    return "| " + " | ".join(cells) + " |"


def print_scores(
    title: str, timed: dict[str, dict[str, Any]], reports: dict[str, dict[str, Any]]
) -> None:
    """The table of the captures, and that of nsys where it recorded, too."""
    print(f"## {title}\n\n{as_markdown(scores(timed, reports))}\n")
    of_nsys = {name: reports[f"{name}.nsys"] for name in timed if f"{name}.nsys" in reports}
    if of_nsys:
        print(f"## {title}, nsys\n\n{as_markdown(scores(timed, of_nsys))}\n")
        print(f"## {title}, both recorders\n\n{compared(timed, reports)}\n")


def sealed_reports(folder: Path) -> dict[str, dict[str, Any]]:
    """The reports as they were sealed, in one file or in several (a set recorded in parts)."""
    reports: dict[str, dict[str, Any]] = {}
    for line in (folder / "sealed.txt").read_text().splitlines():
        digest, name = line.split()
        text = _plain_or_packed(folder / name)
        if hashlib.sha256(text).hexdigest() != digest:
            sys.exit(f"{name} is not what was sealed")
        reports |= json.loads(text)
    return reports


def _plain_or_packed(file: Path) -> bytes:
    """What a file holds; it is packed where the folder is in the repository."""
    if file.exists():
        return file.read_bytes()
    return gzip.decompress(file.with_name(f"{file.name}.gz").read_bytes())


def score(folder: Path) -> None:
    """Print how the sealed predictions fared, and those of this version."""
    timed = json.loads((folder / "pairs.json").read_text())
    print_scores("As sealed", timed, sealed_reports(folder))
    captures = folder / "captures"
    if captures.is_dir():
        print_scores("This version", timed, reports_of(captures))


def main() -> None:
    """Record, or score."""
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=["record", "score"])
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", default="ninth")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--nsys", help="the nsys that records, too")
    parser.add_argument("--seconds", type=float, default=480.0)
    options = parser.parse_intermixed_args()
    if options.do == "record":
        record(options)
    else:
        score(options.out)


if __name__ == "__main__":
    main()
