"""Time and memory of `traceanalyzer`, beside HTA, `orjson.loads` and nsys-ai: `python -m
benchmarks.analyze`.

The 155 MB recording of ../shared/traces and replicas of it, plain and gzipped, by one process and
by two, the first and the second question; other commands; a folder of 64 ranks; a large nsys
export. Each run is a process of its own. Writes what it measured as tables in Markdown. See
README.md here for what is measured and why.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import peers
from benchmarks.measured import MB, Cost, available_mb, best, measure, traceanalyzer_command
from benchmarks.results import Results
from benchmarks.sized import (
    EXPORT,
    SMALL,
    check_sources,
    gzipped,
    rank_folder,
    recordings,
    same_again,
)

SETTLED_S = 2.5
"""What was written less long ago is not kept."""
REPEATED_MB = 200
"""Smaller ones are measured several times, of which the fastest counts."""
PLAIN = "Plain JSON"
PACKED = "Gzipped"
RANKS = "Ranks of one run"
NSYS = "Nsight Systems"
SHORT = "Start-up"

_LOAD = """
import sys, time, traceanalyzer
traceanalyzer.load(sys.argv[2])  # imports and caches are not the reader's cost
begun, cpu = time.perf_counter(), time.process_time()
traceanalyzer.load(sys.argv[1])
print(time.perf_counter() - begun, time.process_time() - cpu)
"""


class Asked:
    """Commands of traceanalyzer in an empty cache folder, which they share until it is emptied."""

    def __init__(self, cache: Path, repeats: int) -> None:
        self._cache = cache
        self._repeats = repeats
        os.environ["TRACEANALYZER_CACHE"] = str(cache)

    def forget(self) -> None:
        """Empty the cache."""
        shutil.rmtree(self._cache, ignore_errors=True)

    def kept_mb(self) -> float:
        """The models in the cache."""
        return sum(file.stat().st_size for file in self._cache.glob("*.model")) / MB

    def __call__(self, *words: str, small: bool = False) -> Cost:
        """One command; `small`: the fastest of several runs."""
        return best([*traceanalyzer_command(), *words], self._repeats if small else 1)

    def report(self, path: Path, *words: str, small: bool = False) -> Cost:
        """One `analyze`, as JSON."""
        return self("analyze", str(path), "--format", "json", *words, small=small)


def measure_questions(
    ask: Asked, results: Results, kind: str, path: Path, text_mb: float, jobs: list[int]
) -> None:
    """Every way to ask for the report of a recording, and whether the answers agree."""
    small = text_mb < REPEATED_MB
    costs = []
    for count in jobs:
        cost = ask.report(path, "--no-cache", "--jobs", str(count), small=small)
        costs.append(
            results.add(kind, f"analyze, {_processes(count)}", path, text_mb, cost, _answer(cost))
        )
    ask.forget()
    first = ask.report(path)
    costs.append(
        results.add(
            kind, "analyze, first question", path, text_mb, first, f"keeps {ask.kept_mb():.0f} MB"
        )
    )
    second = ask.report(path, small=small)
    costs.append(results.add(kind, "analyze, second question", path, text_mb, second))
    answers = {hashlib.sha256(cost.output.encode()).hexdigest() for cost in costs}
    if len(answers) > 1:
        results.note(f"ANSWERS DIFFER: {path.name}")


def measure_commands(ask: Asked, results: Results, path: Path, text_mb: float, into: Path) -> None:
    """Other commands, without a cache and as a second question: of the recording there is a model
    and a report by now, and of the second of two, too."""
    again = same_again(path)
    commands: dict[str, list[str]] = {
        "gaps": ["gaps", str(path)],
        "path": ["path", str(path)],
        "analyze -o report.html": ["analyze", str(path), "-o", str(into / "report.html")],
        "compare A B": ["compare", str(path), str(again)],
        "overlay --merge -o both.json.gz": [
            "overlay",
            str(path),
            "--merge",
            "-o",
            str(into / "both.json.gz"),
        ],
    }
    for what, words in commands.items():
        both = str(again) in words
        mb = text_mb * 2 if both else text_mb
        results.add(PLAIN, what, path, mb, ask(*words, "--no-cache"))
        if both:
            ask.report(again)
        results.add(PLAIN, f"{what}, second question", path, mb, ask(*words))


def measure_ranks(ask: Asked, results: Results, folder: Path, asked: argparse.Namespace) -> None:
    """A folder of ranks, by one process and by several."""
    for ranks in sorted({max(asked.ranks // 4, 2), asked.ranks}):
        path = rank_folder(folder, ranks, asked.rank_mb)
        text_mb = sum(file.stat().st_size for file in path.iterdir()) / MB
        time.sleep(SETTLED_S)
        measure_questions(ask, results, RANKS, path, text_mb, asked.jobs)
        if asked.clean:
            shutil.rmtree(path)


def measure_nsys(ask: Asked, results: Results, folder: Path, asked: argparse.Namespace) -> None:
    """A large export of Nsight Systems, beside nsys-ai."""
    for scale in asked.nsys_scales:
        path = folder / f"export.x{scale:g}.sqlite"
        if not path.exists():
            # in a process of its own: it takes memory, and what is measured starts as a copy of
            # this one
            tiling = [
                sys.executable,
                "-m",
                "benchmarks.tile_nsys",
                str(EXPORT),
                str(path),
                "--scale",
                str(scale),
            ]
            subprocess.run(tiling, check=True, stdout=subprocess.DEVNULL)
        text_mb = path.stat().st_size / MB
        time.sleep(SETTLED_S)
        measure_questions(ask, results, NSYS, path, text_mb, [1])
        for words in () if asked.no_peers else (("info",), ("diagnose", "--format", "json")):
            found = peers.nsys_ai(folder, path, *words)
            if found is None:
                results.note(f"nsys-ai {words[0]} was not run on {text_mb:,.0f} MB.")
            else:
                results.add(NSYS, f"nsys-ai {words[0]}", path, text_mb, *found)
        if asked.clean:
            path.unlink()


def measure_sizes(ask: Asked, results: Results, folder: Path, asked: argparse.Namespace) -> None:
    """Each size of the large recording, plain and gzipped, beside other programs."""
    for path in recordings(folder, asked.sizes_mb):
        text_mb = path.stat().st_size / MB
        packed = None if asked.no_gzip else gzipped(path)
        same_again(
            path
        )  # before anything is asked: a new name changes a file's times, and with them its identity
        time.sleep(SETTLED_S)
        if text_mb < REPEATED_MB:
            measure_reader(results, path)
        if not asked.no_peers:
            measure_peers(results, folder, path, text_mb, asked.hta_mb)
        measure_questions(ask, results, PLAIN, path, text_mb, asked.jobs)
        if not asked.no_commands and text_mb < asked.commands_mb:
            measure_commands(ask, results, path, text_mb, folder)
        if packed is not None:
            measure_questions(ask, results, PACKED, packed, text_mb, asked.jobs)
        same_again(path).unlink()
        for made in (path, packed):
            if asked.clean and made is not None:
                made.unlink()


def measure_peers(
    results: Results, folder: Path, path: Path, text_mb: float, hta_mb: float
) -> None:
    """`orjson.loads` and HTA on a recording."""
    decoded = peers.decode(path)
    if decoded is None:
        results.note(
            f"orjson.loads was not run on {text_mb:,.0f} MB: it takes about {peers.ORJSON_RATIO} times that."
        )
    else:
        results.add(PLAIN, "orjson.loads", path, text_mb, decoded)
    found = peers.hta(folder, path) if text_mb < hta_mb else None
    if found is not None:
        results.add(PLAIN, "HTA", path, text_mb, *found)


def measure_start(ask: Asked, results: Results) -> None:
    """What the user waits for on every use."""
    results.add(SHORT, "--help", SMALL, 0, ask("--help", small=True), "bar 0.2 s")
    results.add(SHORT, "analyze, small trace", SMALL, 0, ask.report(SMALL, small=True), "bar 1.2 s")


def measure_reader(results: Results, path: Path) -> None:
    """The reader alone, imports excluded."""
    cost = measure([sys.executable, "-c", _LOAD, str(path), str(SMALL)])
    if cost.status:
        results.note(f"The reader alone: {cost.outcome}")
        return
    wall, cpu = map(float, cost.output.split())
    size = path.stat().st_size / MB
    results.note(
        f"The reader alone, one process: {size / wall:.0f} MB/s, {size / cpu:.0f} MB a CPU-second (bar 200)."
    )


def _processes(count: int) -> str:
    return f"{count} process{'es' if count > 1 else ''}"


def _answer(cost: Cost) -> str:
    if cost.status:
        return cost.outcome
    step = json.loads(cost.output)["metrics"]["step_time_ms"]
    return f"{step['count']} steps of {step['mean']:.4g} ms" if step else "no steps"


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "traceanalyzer-benchmarks",
        help="where recordings and other tools' environments are made and kept",
    )
    parser.add_argument(
        "--clean", action="store_true", help="remove each recording once it is measured"
    )
    for name, kind, default, what in (
        ("--sizes-mb", float, [1000], "besides 155; 4000 takes 10 GB of disk and 4 of memory"),
        ("--jobs", int, [1, 2], "processes"),
        ("--nsys-scales", float, [0.1, 1], "1: 1.3 million rows, 70 MB"),
    ):
        parser.add_argument(name, type=kind, nargs="*", default=default, help=what)
    for name, kind, default, what in (
        ("--repeats", int, 2, "runs of what takes seconds, of which the fastest counts"),
        ("--ranks", int, 64, "of a run, and a quarter of them; 0: none"),
        ("--rank-mb", float, 35, "of each of them"),
        ("--hta-mb", float, 300, "HTA reads what is smaller: it takes minutes for 600 MB"),
        ("--commands-mb", float, 1200, "other commands are run on what is smaller"),
    ):
        parser.add_argument(name, type=kind, default=default, help=f"{what} (default {default})")
    for name in ("gzip", "peers", "commands"):
        parser.add_argument(f"--no-{name}", action="store_true")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    return parser.parse_args()


def main() -> None:
    asked = _asked()
    check_sources()
    begun = time.monotonic()
    results = Results()
    results.note(
        f"{os.cpu_count()} cores, {available_mb() / 1000:.0f} GB, Python {sys.version.split()[0]}, {_load()}."
    )
    parts: list[Callable[[Asked, Results], None]] = [
        measure_start,
        lambda ask, results: measure_sizes(ask, results, asked.folder, asked),
        lambda ask, results: (
            measure_ranks(ask, results, asked.folder, asked) if asked.ranks else None
        ),
        lambda ask, results: measure_nsys(ask, results, asked.folder, asked),
    ]
    with tempfile.TemporaryDirectory() as cache:
        ask = Asked(Path(cache) / "cache", asked.repeats)
        try:
            for part in parts:
                part(ask, results)
        finally:
            results.note(
                f"All of it took {(time.monotonic() - begun) / 60:.0f} minutes; {_load()}."
            )
            if asked.markdown is not None:
                asked.markdown.write_text(results.markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
