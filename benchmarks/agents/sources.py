"""The recordings that tasks are made of, each with what a stopwatch read of its program."""

from __future__ import annotations

import json
import statistics
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy import ABLATIONS, SHARED
from benchmarks.agents.task import Truth
from benchmarks.remedies import Pair, pairs

MORE = SHARED.parent / "more"
RANKS = ABLATIONS.parent / "ablations_ranks"
REMEDIES_OF_RANKS = {
    "buckets_two_widths": "larger_buckets",
    "pipeline_1f1b_heavy_stage": "fix_straggler",
    "straggler_batch": "fix_straggler",
    "straggler_every_other": "fix_straggler",
    "straggler_input": "fix_straggler",
    "stragglers_by_turns": "fix_straggler",
}
"""What was taken away of programs of two ranks, as a remedy."""
NINTH = ABLATIONS.parent / "ninth"
CLASSES = {
    "remove_syncs": ("sync", "launch", "host"),
    "cuda_graph": ("launch",),
    "fused_optimizer": ("launch", "memory"),
    "fuse_elementwise": ("memory", "launch"),
    "compile": ("launch", "memory"),
    "data_loader_workers": ("input",),
    "move_host_work": ("host",),
    "tf32": ("compute",),
    "copy_ahead": ("transfer", "input"),
    "batch_calls": ("launch", "sync", "transfer", "host"),
}
"""Classes that are right where a remedy is."""


FIXED_EVERY = 4
"""One pair in so many is a task once more, as its program is with the remedy: to apply it again
brings nothing."""


@dataclass(frozen=True)
class Source:
    """A task to be made: its truth, and the files of its recording."""

    truth: Truth
    files: tuple[Path, ...]


def sources(scratch: Path) -> Iterator[Source]:
    """All that there are; those of `../shared` only where it is. `scratch` takes what has to be
    unpacked."""
    for folder, label in ((ABLATIONS, "ablations"), (SHARED, "shared"), (MORE, "real")):
        if (folder / "manifest.json").exists():
            yield from _of_pairs(folder, label)
    yield from _of_ranks()
    yield from _ninth()
    yield from _first_sight(scratch)


def _of_pairs(folder: Path, label: str) -> Iterator[Source]:
    for number, pair in enumerate(pairs(folder)):
        if number % FIXED_EVERY == 0 and (files := _with_remedy(pair.paths)):
            yield Source(_applied_again(pair, label), files)
        truth = Truth(
            name=f"{label}-{pair.name.replace('/', '-').removesuffix('.base')}",
            source=label,
            base_ms=statistics.median(pair.rounds_ms),
            fixed_ms={pair.remedy: statistics.median(pair.fixed_ms)},
            causes=CLASSES.get(pair.remedy, ()),
        )
        yield Source(truth, pair.paths)


def _with_remedy(base: tuple[Path, ...]) -> tuple[Path, ...]:
    """The recordings of the same program with its remedy; empty where there are none."""
    for other in (".fix", ".without"):
        files = tuple(path.with_name(path.name.replace(".base", other)) for path in base)
        if all(file.is_file() for file in files) and files != base:
            return files
    return ()


def _applied_again(pair: Pair, label: str) -> Truth:
    fixed_ms = statistics.median(pair.fixed_ms)
    name = f"{label}-{pair.name.replace('/', '-').removesuffix('.base')}-fixed"
    return Truth(name, label, fixed_ms, {pair.remedy: fixed_ms})


def _ninth() -> Iterator[Source]:
    """Programs with a stopwatch of several remedies, by Kineto and by nsys."""
    if not (NINTH / "pairs.json").exists():
        return
    for name, row in json.loads((NINTH / "pairs.json").read_text()).items():
        times = {key[:-3]: statistics.median(row[key]) for key in row if key.endswith("_ms")}
        if "base" not in times:
            continue
        base = times.pop("base")
        fixed = {row["remedy"] if key == "fix" else key: times[key] for key in times}
        for capture in (NINTH / "captures" / name, NINTH / "captures" / f"{name}.nsys"):
            if capture.is_dir():
                truth = Truth(f"ninth-{capture.name}", "ninth", base, fixed)
                yield Source(truth, tuple(sorted(capture.iterdir())))


def _of_ranks() -> Iterator[Source]:
    cases = json.loads((RANKS / "manifest.json").read_text())["cases"]
    for stem, remedy in REMEDIES_OF_RANKS.items():
        truth = Truth(
            name=f"ranks-{stem}",
            source="ranks",
            base_ms=statistics.median(cases[f"{stem}.base"]["rounds_ms"]),
            fixed_ms={remedy: statistics.median(cases[f"{stem}.without"]["rounds_ms"])},
        )
        yield Source(truth, tuple(sorted(RANKS.glob(f"{stem}.base.rank*.json.gz"))))


def _first_sight(scratch: Path) -> Iterator[Source]:
    folder = MORE / "first_sight"
    if not folder.is_dir():
        return
    with tarfile.open(folder / "recordings.tar.xz") as packed:
        packed.extractall(scratch, filter="data")
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    for name, case in cases.items():
        base = statistics.median(case["base"]["rounds_ms"])
        fixed: dict[str, float] = {}
        if "fix" in case:
            work = case["as_much_work_per_fix_step"] or 1
            fixed = dict.fromkeys(case["remedies_expected"], case["fix"]["step_ms"] / work)
        for trial in case.get("tried", {}).values():
            fixed |= _tried(trial, case["tried"], base)
        truth = Truth(f"first-{name}", "first_sight", base, fixed, tuple(case["classes_accepted"]))
        files = scratch / next(one for one in case["recordings"] if one.endswith(".base"))
        yield Source(truth, tuple(sorted(files.iterdir())))


def _tried(trial: dict, trials: dict, base_ms: float) -> dict[str, float]:
    """The step of a remedy that was timed another day, on the scale of the base's own time."""
    if not trial.get("remedy") or "base" not in trials:
        return {}
    ratio = statistics.median(trial["rounds_ms"]) / statistics.median(trials["base"]["rounds_ms"])
    return {trial["remedy"]: ratio * base_ms}
