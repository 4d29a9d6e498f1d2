"""Remedies held against the stopwatch: `python -m benchmarks.remedies [FOLDER ...] [--markdown]`.

A FOLDER holds `manifest.json` with programs that were timed with and without a remedy. For each: is
the remedy among the first three that are advised, and is the step that it promises what the
stopwatch then read, within 20 %, or does its range meet the stopwatch's own rounds. `--markdown`
puts the table into docs/accuracy/tables.md.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import traceanalyzer as ta
from benchmarks.accuracy import (
    ABLATIONS,
    PAGE,
    REMEDIES_BELOW,
    REMEDIES_TITLE,
    SHARED,
    Rows,
    Table,
    as_markdown,
    as_text,
)
from traceanalyzer.diagnosis.diagnose import diagnose
from traceanalyzer.diagnosis.selection import measured

MORE = SHARED.parent / "more"
FIRST = 3
"""Recommendations that a person looks at."""
CLOSE = 0.2
"""A promise is kept within this of the stopwatch."""
TIMED = {
    "manual_layernorm": "fuse_elementwise",
    "tiny_mlp_infer": "cuda_graph",
    "item_every_layer": "remove_syncs",
    "slow_dataloader": "data_loader_workers",
    "python_between_ops": "move_host_work",
    "gemm_fp32": "tf32",
    "adam_big": "fused_optimizer",
    "ddp_accum_sync": "no_sync_accumulation",
    "straggler": "fix_straggler",
    "item_small_layers": "remove_syncs",
    "input_dominant": "data_loader_workers",
    "copy_pinned": "copy_ahead",
    "graph_decode": "cuda_graph",
    "straggler_compute": "fix_straggler",
    "sync_explicit": "remove_syncs",
    "sync_loss": "remove_syncs",
    "sync_mask": "remove_syncs",
    "item_long_layers": "remove_syncs",
    "python_exposed": "move_host_work",
    "python_partly": "move_host_work",
    "input_slow": "data_loader_workers",
    "input_slight": "data_loader_workers",
    "copy_pageable": "copy_ahead",
    "graph_train": "cuda_graph",
    "optimizer_fused": "fused_optimizer",
    "optimizer_loop": "fused_optimizer",
    "fuse_small": "compile",
    "fuse_large": "compile",
    "buckets_small": "larger_buckets",
    "buckets_large": "smaller_buckets",
    "reduce_after": "overlap_communication",
    "straggler_host": "fix_straggler",
    "straggler_sync": "fix_straggler",
    "straggler_device": "fix_straggler",
    "bert_adam_loop": "fused_optimizer",
    "loader_resnet": "data_loader_workers",
    "unet_groupnorm": "compile",
    "embed_service": "batch_calls",
    "metrics_item": "remove_syncs",
}
"""The remedy that the second program of a pair applies. Pairs that only leave communication out
have none."""


@dataclass(frozen=True)
class Pair:
    """A recorded program, and how long its step took with the remedy."""

    name: str
    remedy: str
    paths: tuple[Path, ...]
    rounds_ms: tuple[float, ...]
    fixed_ms: tuple[float, ...]


def pairs(folder: Path) -> Iterator[Pair]:
    """The pairs of a folder whose remedy is known."""
    cases = json.loads((folder / "manifest.json").read_text())["cases"]
    for name, case in cases.items():
        stem = name.removesuffix(".base")
        fixed = (cases.get(f"{stem}.fix") or cases.get(f"{stem}.without") or {}).get("rounds_ms")
        fixed = case.get("rounds_ms_with_remedy") or (fixed if name != stem else None)
        remedy = TIMED.get(stem.rpartition("/")[2])
        paths = sorted(folder.glob(f"{name}.rank*.json.gz")) or [folder / f"{name}.json.gz"]
        paths = paths if paths[0].exists() else [folder / name]
        if remedy and fixed and paths[0].exists():
            rounds = case.get("rounds_ms") or [case["step_ms_unprofiled"]]
            yield Pair(name, remedy, tuple(paths), tuple(rounds), tuple(fixed))


def row(pair: Pair) -> tuple[tuple[str, ...], bool, bool, bool | None]:
    """The row of a pair; whether its remedy is among the first, its step right, the median in its
    range."""
    m = measured(ta.load(*pair.paths)).critical
    advised = diagnose(m).recommendations
    base = "-" if m.replay is None else f"{m.replay.base_ms:.3f}"
    place = next((i for i, one in enumerate(advised) if one.remedy == pair.remedy), None)
    fixed = statistics.median(pair.fixed_ms)
    before = (
        pair.name,
        pair.remedy,
        f"{statistics.median(pair.rounds_ms):.3f}",
        base,
        f"{fixed:.3f}",
    )
    ahead = ", ".join(one.remedy or one.id for one in advised[:FIRST])
    if place is None or advised[place].predicted_step_ms is None:
        return (
            (*before, "-", "-", "-", "-", ahead),
            place is not None and place < FIRST,
            False,
            None,
        )
    p = advised[place]
    assert p.predicted_step_ms is not None
    assert p.low_ms is not None
    assert p.high_ms is not None
    error = (
        p.predicted_step_ms / min(max(p.predicted_step_ms, min(pair.fixed_ms)), max(pair.fixed_ms))
        - 1
    )
    met = p.low_ms <= max(pair.fixed_ms) and p.high_ms >= min(pair.fixed_ms)
    cells = (
        str(place + 1),
        f"{p.predicted_step_ms:.3f}",
        f"{p.low_ms:.3f} to {p.high_ms:.3f}",
        f"{error:+.1%}",
        ahead,
    )
    return (
        (*before, *cells),
        place < FIRST,
        abs(error) <= CLOSE or met,
        p.low_ms <= fixed <= p.high_ms,
    )


def table(found: list[Pair]) -> Table:
    """All pairs, misses too."""
    made = [row(pair) for pair in found]
    rows: Rows = [one[0] for one in made]
    first = sum(one[1] for one in made)
    right = sum(one[2] for one in made)
    inside = [one[3] for one in made if one[3] is not None]
    text = (
        f"Of {len(made)} pairs the timed remedy is among the first {FIRST} recommendations in {first}; its step is "
        f"within {CLOSE:.0%} of the stopwatch, or its range meets the stopwatch's rounds, in {right}. "
        f"Of {len(inside)} ranges {sum(inside)} hold the stopwatch's median."
    )
    columns = (
        "recording",
        "remedy",
        "before",
        "estimated",
        "with it",
        "place",
        "promised",
        "range",
        "error",
        "first",
    )
    return REMEDIES_TITLE, columns, rows, text


def main() -> None:
    """Print the table, or put it into the documentation."""
    folders = [Path(a) for a in sys.argv[1:] if not a.startswith("-")] or [SHARED, ABLATIONS, MORE]
    made = table([pair for folder in folders if folder.exists() for pair in pairs(folder)])
    if "--markdown" not in sys.argv:
        print(as_text(made))
        return
    before = PAGE.read_text(encoding="utf-8").partition(REMEDIES_BELOW)[0]
    PAGE.write_text(f"{before.rstrip()}\n\n{as_markdown(made)}", encoding="utf-8")


if __name__ == "__main__":
    main()
