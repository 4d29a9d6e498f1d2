"""Logs of a job of many ranks of which everything is known."""

import json
from pathlib import Path

import numpy as np

START_S = 1_760_000_000.0
STEP_MS = 500.0
DATA_MS = 20.0


def write_logs(
    folder: Path,
    steps: int,
    ranks: int = 4,
    *,
    longer: dict[int, float] | None = None,
    slow: tuple[int, int, float] | None = None,
    back: dict[int, tuple[int, float]] | None = None,
    data: bool = True,
    clock: bool = True,
) -> list[Path]:
    """A log a rank. `longer`: factors of the step time from a step on; `slow`: a rank, the step
    from which on it waits for data, and how long; `back`: before a step, how many steps a restart
    goes back and after how many seconds."""
    rng = np.random.default_rng(0)
    t = START_S
    step = 0
    back = dict(back or {})
    rows: list[list[str]] = [[] for _ in range(ranks)]
    while step < steps:
        if step in back:
            steps_back, gap = back.pop(step)
            step = step - steps_back
            t = t + gap
        ms = STEP_MS * (1 + 0.01 * rng.standard_normal())
        ms *= np.prod([factor for first, factor in (longer or {}).items() if step >= first])
        waits = DATA_MS + rng.standard_normal(ranks)
        if slow and step >= slow[1]:
            waits[slow[0]] += slow[2]
            ms += slow[2]
        t += ms / 1e3
        for rank in range(ranks):
            row = {"rank": rank, "step": step, "step_ms": round(ms, 3)}
            row |= {"t": round(t, 3)} if clock else {}
            row |= {"data_ms": round(waits[rank], 3)} if data else {}
            rows[rank].append(json.dumps(row))
        step += 1
    folder.mkdir()
    for rank, lines in enumerate(rows):
        (folder / f"rank{rank}.jsonl").write_text("\n".join(lines) + "\n")
    return sorted(folder.iterdir())
