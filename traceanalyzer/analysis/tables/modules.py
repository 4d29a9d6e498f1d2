"""The step by module of the model: device time forward and backward, work, traffic, what bounds it;
and NVTX ranges by domain and category.

Modules of one class at one place in the model (the twelve layers of a stack) are one row. A row
holds what its modules launch with all modules inside them; `self_ms` is what they launch
themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.joined.origins import Places, places_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.roofline.roofline_rows import (
    Columns,
    RatedRow,
    by_group,
    entry,
    rated_columns,
    without_nan,
)
from traceanalyzer.analysis.tables.kernels import shares_of_step
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, maybe, metric, ms
from traceanalyzer.trace import F64, I32, I64, distinct

OUTSIDE = "(outside of all modules)"


@dataclass(frozen=True)
class ModuleTimes:
    """Modules of one class at one place of the model, in a mean steady step."""

    rank: int | None = metric("rank of the process")
    name: str = metric("class of the modules, or their path in the model with # for numbers")
    depth: int = metric("how many modules enclose them")
    within: str | None = metric("modules that enclose them, outermost first")
    modules: int = metric(
        "how many different modules the row stands for, the layers of a stack for instance"
    )
    calls: float = metric("calls a step")
    host_ms: float = metric("host time a step inside their calls; the backward pass is not in it")
    device_ms: float = metric(
        "sum of the durations a step of device ops that they, and the modules inside them, launched, forward and "
        "backward"
    )
    forward_ms: float = metric("part of it launched in their calls")
    backward_ms: float = metric(
        "part of it launched in the backward pass, by the autograd nodes of what ran in their calls"
    )
    self_ms: float = metric("part of it that no module inside them launched")
    share_of_step: float | None = metric(
        "device time as a share of the step; null if it has no length", "share"
    )
    share_of_device: float = metric("device time as a share of that of all device ops", "share")
    python: str | None = metric(
        "function of the program that the first call came from, with the line of its `def`; null where stacks "
        "were not recorded"
    )


@dataclass(frozen=True)
class ModuleStats(RatedRow, ModuleTimes):
    """Modules of one class at one place of the model, compared with the roofline."""

    recomputed_ms: float | None = maybe(
        "part of the backward time in which their forward pass runs again; null where it does not",
        kw_only=True,
    )


SHOWN_PAYLOADS = 4


def module_stats(rated: WithRoofline) -> list[ModuleStats]:
    """A row for each place, in the order of the model, those inside others after them; then what no
    module launched. Empty where no calls of modules were recorded."""
    origins = rated.joined.origins
    if not len(origins.calls.start):
        return []
    places = places_of(origins.calls)
    ops = np.flatnonzero(rated.timed.steady_ops)
    place_of_call = np.append(places.of_call, -1)
    work = _PlacedWork.of(places, ops, place_of_call[origins.call[ops]])
    figures = _figures(rated, work)
    in_steps = rated.timed.steady_host(origins.calls.start)
    steady = np.bincount(places.of_call[in_steps], minlength=work.count)
    rows = [
        _row(rated, places, figures, place)
        for place in range(len(places.paths))
        if steady[place] or figures["device_ms"][place]
    ]
    outside = ModuleStats(
        rank=rated.trace.rank,
        name=OUTSIDE,
        depth=0,
        within=None,
        modules=0,
        calls=0.0,
        host_ms=0.0,
        python=None,
        **entry(figures, -1),
    )
    return [*rows, outside] if outside.device_ms else rows


@dataclass(frozen=True, eq=False)
class _PlacedWork:
    """Device ops of the steady state by place; the last place is what lies outside of all
    modules."""

    count: int  # places
    ops: I64
    own: I64  # the place that each of them belongs to directly
    held: I64  # device ops, once for each place that they belong to, directly or through one inside
    place: I64  # that place

    @classmethod
    def of(cls, places: Places, ops: I64, own: I64) -> "_PlacedWork":
        """The work of these ops; `own`: the innermost place of each, -1 outside of all."""
        count = len(places.paths) + 1
        pairs = [(ops, own)]
        up = np.append(places.above, -1)
        while len(pairs[-1][0]):
            inner, place = pairs[-1]
            outer = up[place]
            pairs.append((inner[outer >= 0], outer[outer >= 0]))
        held = np.concatenate([inner for inner, _ in pairs])
        place = np.concatenate([place for _, place in pairs])
        outside = count - 1
        return cls(
            count=count,
            ops=ops,
            own=np.where(own >= 0, own, outside),
            held=held,
            place=np.where(place >= 0, place, outside),
        )


def _figures(rated: WithRoofline, work: _PlacedWork) -> Columns:
    """The columns of places that are of their device work."""
    length = (rated.trace.device_ops.end - rated.trace.device_ops.start).astype(np.float64)
    steps = rated.timed.steps.steady_count
    again = rated.joined.run_again[rated.joined.launch_node]

    def total(ns: F64) -> NDArray[Any]:
        return np.bincount(work.place, weights=ns[work.held], minlength=work.count)

    device = total(length)
    backward = total(length * rated.joined.origins.backward)
    repeated = total(length * again)
    spent = {
        "device_ms": device,
        "forward_ms": device - backward,
        "backward_ms": backward,
        "self_ms": np.bincount(work.own, weights=length[work.ops], minlength=work.count),
        "recomputed_ms": np.where(repeated > 0, repeated, np.nan),
    }
    return {
        **{name: without_nan(ns / steps / NS_PER_MS) for name, ns in spent.items()},
        "share_of_step": shares_of_step(rated.timed, device),
        "share_of_device": without_nan(device / max(float(length[work.ops].sum()), 1.0)),
        **rated_columns(rated, by_group(work.place, work.held, work.count)),
    }


def _row(rated: WithRoofline, places: Places, figures: Columns, index: int) -> ModuleStats:
    origins = rated.joined.origins
    steps = rated.timed.steps.steady_count
    path = places.paths[index]
    every = np.flatnonzero(places.of_call == index)
    calls = every[rated.timed.steady_host(origins.calls.start[every])]
    length = (origins.calls.end - origins.calls.start)[calls]
    first = int([*calls, *every][0])
    line = rated.joined.python.source_line(
        int(origins.calls.thread[first]), int(origins.calls.start[first])
    )
    return ModuleStats(
        rank=rated.trace.rank,
        name=path[-1],
        depth=len(path) - 1,
        within=" > ".join(path[:-1]) or None,
        modules=len(distinct(origins.calls.name[every])),
        calls=len(calls) / steps,
        host_ms=ms(int(length.sum()) / steps),
        python=line if rated.trace.collected.stacks else None,
        **entry(figures, index),
    )


@dataclass(frozen=True)
class RangeRow:
    """NVTX ranges of one name that have a domain, a category or a payload, in the steady steps."""

    rank: int | None = metric("rank of the process")
    domain: str | None = metric("NVTX domain; null for the default one")
    category: str | None = metric("category within it; null without")
    name: str | None = metric("name of the range; null without")
    count: float = metric("ranges a step")
    host_ms: float = metric("sum of their durations a step (nested ones again)")
    payloads: str | None = metric("their payloads, most frequent first; null without")


def range_rows(timed: Timed) -> list[RangeRow]:
    """A row for each domain, category and name, by time."""
    table = timed.trace.range_details
    text = timed.trace.text
    steps = timed.steps.steady_count
    rows = np.flatnonzero(timed.steady_host(table.start))
    groups = Groups.of(table.domain[rows], table.category[rows], table.name[rows])
    total = groups.sum((table.end - table.start)[rows])
    found = []
    for group, members in enumerate(groups.rows):
        first = rows[members[0]]
        found.append(
            RangeRow(
                rank=timed.trace.rank,
                domain=text(int(table.domain[first])),
                category=text(int(table.category[first])),
                name=text(int(table.name[first])),
                count=len(members) / steps,
                host_ms=ms(total[group]) / steps,
                payloads=_payloads(timed, table.payload[rows[members]]),
            )
        )
    return sorted(found, key=lambda row: -row.host_ms)


def _payloads(timed: Timed, codes: I32) -> str | None:
    """The most common of these payloads (codes, -1: none), most common first; None without any."""
    values, count = np.unique(codes, return_counts=True)
    in_order = values[np.argsort(-count, kind="stable")].tolist()
    shown = [timed.trace.strings[code] for code in in_order if code >= 0]
    if not shown:
        return None
    more = f", {len(shown) - SHOWN_PAYLOADS} more" if len(shown) > SHOWN_PAYLOADS else ""
    return ", ".join(shown[:SHOWN_PAYLOADS]) + more
