"""Hangs of a small simulation, whose answers are known."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.hang.simulation import KINDS, Case, case
from traceanalyzer.fleet.hang.model import Hang, hang_of
from traceanalyzer.ingest.flight_recorder.digest import Digests
from traceanalyzer.ingest.flight_recorder.folder import read_flight
from traceanalyzer.trace.flight import Flight

CASES = 120
IN_FILES = 11
"""Every so many cases one is written to files and read from them: of each kind some, as there are
twelve kinds."""
EXACT = 0.97
NAMES = (
    lambda r, _: f"rank_{r}",
    lambda r, _: f"_dump_{r}",
    lambda r, _: f"nccl_trace_rank_{r}.pickle",
    lambda r, _: f"node{r // 4}/gpu{r % 4}-job1234.bin",
    lambda r, draw: f"{draw.randrange(10**9)}.dump",
)


def written(made: Case, folder: Path) -> None:
    """The dumps of a case as files: names, form and damage by its seed. Without groups in them,
    names have the rank."""
    draw = random.Random(made.seed)  # noqa: S311
    name = draw.choice(NAMES if not made.writer.active_only else NAMES[:3])
    as_json = draw.random() < 0.2
    for rank, dump in made.dumps.items():
        path = folder / name(rank, draw)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(
            json.dumps(dump).encode() if as_json else pickle.dumps(dump, draw.choice((2, 4)))
        )
    if draw.random() < 0.2:
        (folder / "train.log").write_text("step 1\n")
    if draw.random() < 0.1:
        victim = min(made.dumps.keys() - made.culprits)
        data = pickle.dumps(made.dumps[victim])
        (folder / f"again_rank_{victim}").write_bytes(
            data if draw.random() < 0.5 else data[: len(data) // 2]
        )


def answered(made: Case, folder: Path) -> Hang:
    """What is found in the dumps of a case."""
    written(made, folder)
    return hang_of(read_flight(folder))


def answered_in_memory(made: Case) -> Hang:
    """The same without files, which take longer than all else."""
    digests = Digests()
    dumps = {
        rank: replace(digests.digest(dump, f"rank_{rank}"), rank=rank)
        for rank, dump in made.dumps.items()
    }
    return hang_of(
        Flight("", tuple(digests.groups), dumps, frozenset(range(made.job.layout.world)))
    )


def is_exact(made: Case, hang: Hang) -> bool:
    """Whether the answer is the truth. A GPU that stands before a collective that all have issued
    looks in dumps without times like a link that stands: then the operation and its ranks are all
    that can be told."""
    verdict = hang.verdict
    if set(verdict.culprits) == made.culprits:
        return made.kind != "link" or verdict.kind == "stalled"
    return (
        made.kind == "gpu_stuck"
        and verdict.kind == "stalled"
        and made.culprits <= set(verdict.suspects)
    )


def test_the_culprits_of_simulated_hangs_are_found_and_nobody_else(tmp_path: Path) -> None:
    wrong = []
    blamed = []
    for seed in range(CASES):
        folder = tmp_path / str(seed)
        made = case(seed)
        hang = answered(made, folder) if seed % IN_FILES == 0 else answered_in_memory(made)
        if not is_exact(made, hang):
            wrong.append((seed, made.kind, made.culprits, hang.verdict.culprits))
        if hang.verdict.confidence == "sure" and not set(hang.verdict.culprits) <= made.culprits:
            blamed.append((seed, made.kind, made.culprits, hang.verdict.culprits))
    assert not blamed
    assert len(wrong) <= (1 - EXACT) * CASES, wrong
    by_kind = Counter(kind for _, kind, _, _ in wrong)
    assert all(by_kind[kind] <= 0.2 * CASES / len(KINDS) for kind in KINDS), by_kind


KINDS_OF = {
    "gil": "cpu_stopped",
    "storage": "cpu_stopped",
    "killed": "no_dump",
    "sigstop": "no_dump",
    "gpu_error": "gpu_stopped",
    "mismatch_size": "mismatch",
    "mismatch_dtype": "mismatch",
    "mismatch_kind": "mismatch",
    "link": "stalled",
}


@pytest.mark.parametrize("kind", KINDS_OF)
def test_each_fault_has_its_kind(kind: str, tmp_path: Path) -> None:
    made = case(KINDS.index(kind))
    assert answered(made, tmp_path).verdict.kind == KINDS_OF[kind]


def test_a_gpu_that_has_not_begun_is_told_where_times_were_recorded(tmp_path: Path) -> None:
    seeds = range(KINDS.index("gpu_stuck"), 400, len(KINDS))
    made = next(one for one in map(case, seeds) if one.writer.timing and not one.writer.active_only)
    verdict = answered(made, tmp_path).verdict
    assert (set(verdict.culprits), verdict.kind, verdict.confidence) == (
        made.culprits,
        "gpu_stopped",
        "sure",
    )


def test_the_frame_and_the_sizes_are_those_of_the_operation(tmp_path: Path) -> None:
    made = next(one for one in map(case, range(0, 240, len(KINDS))) if one.writer.frames)
    verdict = answered(made, tmp_path).verdict
    stopped = made.job.ranks[min(made.culprits)]
    following = stopped.program[stopped.pc]
    assert verdict.collective == following.kind
    assert verdict.frame == f"/home/me/job/train.py:{following.line} (train_step)"
