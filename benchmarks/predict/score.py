"""How far sealed predictions are off, next to naive ones: time in proportion to batch and length,
no change in another number format, on another GPU or on other ranks.

What counts is the stopwatch as it read. Hosts are up to 1.6 times as fast in one process as in
another; `on_recorded_host` says what a step that waits for the host would have taken on a host as
fast as the recorded one, by the base that was timed beside it."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

WITHIN = 0.1
MOVED = 0.05  # of the step: so much another GPU changes, or it tests nothing
OF_HOST = 0.85  # of the step: a host that takes as long to issue it sets its pace
OF_GPU = ("GPU", "communication")  # what limits a step that the host does not


@dataclass(frozen=True)
class Case:
    """A prediction, or a refusal, and what the stopwatch read."""

    program: str
    setting: str
    kind: str
    held_out: bool
    true_ms: float
    naive_ms: float
    step_ms: float | None
    low_ms: float = 0.0
    high_ms: float = 0.0
    refused: str = ""
    pace: str = ""  # gpu or host: what the prediction says limits the step
    doublings: float = 0.0  # of batch and length, from the recorded setting
    now_ms: float | None = None  # the base, in the process that was recorded
    base_ms: float | None = None  # the base, in the process that was timed
    host_ms: float | None = None  # what the host takes to issue a step at the setting

    @property
    def error(self) -> float:
        """Prediction over stopwatch, less 1."""
        return (self.step_ms or 0.0) / self.true_ms - 1.0

    @property
    def naive_error(self) -> float:
        """The naive one's."""
        return self.naive_ms / self.true_ms - 1.0

    @property
    def inside(self) -> bool:
        """Whether the range holds the stopwatch."""
        return self.low_ms <= self.true_ms <= self.high_ms

    @property
    def on_recorded_host(self) -> "Case":
        """The case with the step on a host as fast as the recorded one."""
        paced = (self.host_ms or 0.0) >= OF_HOST * self.true_ms
        if not paced or not self.now_ms or not self.base_ms:
            return self
        return replace(self, true_ms=self.true_ms * self.now_ms / self.base_ms)

    @property
    def width(self) -> float:
        """Of the range, over the predicted step."""
        return (self.high_ms - self.low_ms) / (self.step_ms or 1.0)


def sizes(label: str) -> tuple[float, float]:
    """Batch and length of a setting's label."""
    batch, _, length = label.partition(".")[0].partition("x")
    return float(batch), float(length or 1)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What was found of each program."""
    lines = (folder / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line]


def cases(folders: list[Path]) -> Iterator[Case]:
    """All cases of these results."""
    every = [rows_of(folder) for folder in folders]
    for rows in every:
        for row in rows:
            yield from _of_settings(row)
            yield from _of_ranks(row, rows)
            others = [one for some in every if some is not rows for one in some]
            yield from _of_gpus(row, others)


def _of_settings(row: dict[str, Any]) -> Iterator[Case]:
    for one in row["predictions"]:
        found = row["timed"].get(one["setting"], {})
        if "rounds_ms" in found:
            yield _case(row, one, found, found["base_ms"])


def _of_ranks(row: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[Case]:
    """The same program's base on another number of ranks."""
    for other in rows:
        for one in row["predictions"]:
            found = other["timed"].get(one["setting"], {})
            if other["program"] == row["other"] and "ranks" in one["asked"] and found:
                yield _case(row, one, found, None)


def _of_gpus(row: dict[str, Any], others: list[dict[str, Any]]) -> Iterator[Case]:
    """The same program's base on another GPU."""
    for other in others:
        if other["program"] != row["program"] or other["gpu"] == row["gpu"]:
            continue
        for one in row["predictions"]:
            name = one["asked"].get("gpu", "")
            if name and name.split()[0] in other["gpu"]:
                yield _case(row, one, other["base"], None)


def _case(
    row: dict[str, Any], one: dict[str, Any], found: dict[str, Any], base_ms: list[float] | None
) -> Case:
    """A prediction, and what was found by the stopwatch."""
    here = sizes(row["base"]["setting"])
    asked = one["asked"]
    there = sizes(one["setting"]) if {"batch", "length"} & set(asked) else here
    now = median(row["base"]["rounds_ms"])
    times = there[0] / here[0] * there[1] / here[1]
    return Case(
        row["program"],
        one["setting"],
        "+".join(asked),
        row["held_out"],
        median(found["rounds_ms"]),
        now * times,
        one.get("step_ms"),
        one.get("low_ms", 0.0),
        one.get("high_ms", 0.0),
        one.get("refused", ""),
        "gpu" if one.get("bottleneck", "").startswith(OF_GPU) else "host",
        math.log2(times),
        now,
        None if base_ms is None else median(base_ms),
        found.get("host_ms"),
    )


def printed(folders: list[Path]) -> str:
    """All cases, and what they come to."""
    every = list(cases(folders))
    lines = [_line(one) for one in every]
    kinds = sorted({one.kind for one in every})
    lines += ["", _summary("all", every)]
    same = [one.on_recorded_host for one in every]
    lines.append(_summary("all, the host as fast as it was when it was recorded", same))
    lines += [_summary(kind, [one for one in every if one.kind == kind]) for kind in kinds]
    moved = [one for one in every if one.kind == "gpu" and abs(one.naive_error) > MOVED]
    lines.append(_summary(f"another GPU, where that changes the step by over {MOVED:.0%}", moved))
    lines += [_summary(f"{pace} sets the pace", _paced(every, pace)) for pace in ("gpu", "host")]
    lines.append(_summary("held out", [one for one in every if one.held_out]))
    lines.append(_summary("tuned on", [one for one in every if not one.held_out]))
    return "\n".join(lines)


def _paced(every: list[Case], pace: str) -> list[Case]:
    return [one for one in every if one.pace == pace]


def as_csv(every: list[Case]) -> str:
    """The rows, to be kept: recordings are lost with the machine that made them."""
    file = io.StringIO()
    names = [field.name for field in fields(Case)]
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    for one in every:
        writer.writerow(asdict(one))
    return file.getvalue()


def from_csv(text: str) -> list[Case]:
    """The rows that `as_csv` wrote."""
    read: dict[str, Callable[[str], Any]] = {
        "float": float,
        "float | None": lambda cell: float(cell) if cell else None,
    }
    read |= {"bool": lambda cell: cell == "True", "str": str}
    kinds = {
        field.name: getattr(field.type, "__name__", None) or str(field.type)
        for field in fields(Case)
    }
    return [
        Case(**{name: read[kinds[name]](cell) for name, cell in row.items()})
        for row in csv.DictReader(io.StringIO(text))
    ]


def _line(one: Case) -> str:
    name = f"{one.program:22} {one.setting:20} {one.true_ms:9.3f} ms"
    if one.step_ms is None:
        return f"{name}  refused: {one.refused[:80]}"
    held = "" if one.inside else "  outside"
    span = f"({one.low_ms:.3f} to {one.high_ms:.3f})"
    return (
        f"{name} {one.step_ms:9.3f} {span:22} {one.error:+7.1%} naive {one.naive_error:+8.1%}{held}"
    )


def _summary(name: str, some: list[Case]) -> str:
    told = [one for one in some if one.step_ms is not None]
    if not told:
        return f"{name}: {len(some)} cases, none predicted"
    errors = [abs(one.error) for one in told]
    within = sum(error <= WITHIN for error in errors)
    return (
        f"{name}: {len(some)} cases, {len(some) - len(told)} refused; "
        f"median error {median(errors):.1%} (naive {median(abs(o.naive_error) for o in told):.1%}), "
        f"within {WITHIN:.0%} {within} of {len(told)}; "
        f"ranges hold {sum(one.inside for one in told)} of {len(told)}, "
        f"median width {median(one.width for one in told):.0%}"
    )
