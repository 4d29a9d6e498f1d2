"""The step by module of the model: device time forward and backward, work, traffic, what bounds it;
and NVTX ranges by domain and category.

Modules of one class at one place in the model (the twelve layers of a stack) are one row. A row
holds what its modules launch with all modules inside them; `self_ms` is what they launch
themselves."""

import numpy as np

from traceanalyzer.analysis.algebra import Groups
from traceanalyzer.analysis.joined.origins import Places, places_of
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.tables.kernels import share_of_step
from traceanalyzer.analysis.tables.roofline_rows import (
    Columns,
    RatedRow,
    by_group,
    entry,
    listed,
    rated_columns,
)
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import NS_PER_MS, dataclass, maybe, metric, ms
from traceanalyzer.trace import I64, distinct

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
        "line of the program that the first call came from; null where stacks were not recorded"
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
    count = len(places.paths) + 1
    place = np.append(places.of_call, -1)[origins.call[ops]]
    # Pairs of a device op and a place that it belongs to, directly or through one inside; -1
    # outside of all.
    pairs = [(ops, place)]
    up = np.append(places.above, -1)
    while len(pairs[-1][0]):
        inner = pairs[-1][0]
        outer = up[pairs[-1][1]]
        pairs.append((inner[outer >= 0], outer[outer >= 0]))
    held, place_of = (np.concatenate(column) for column in zip(*pairs, strict=True))
    group, own = (np.where(of >= 0, of, count - 1) for of in (place_of, place))
    figures = _figures(rated, held, group, count, own, ops)
    steady = np.bincount(
        places.of_call[rated.timed.steady_host(origins.calls.start)], minlength=count
    )
    rows = [
        _row(rated, places, figures, i)
        for i in range(count - 1)
        if steady[i] or figures["device_ms"][i]
    ]
    outside = ModuleStats(
        rated.trace.rank, OUTSIDE, 0, None, 0, 0.0, 0.0, python=None, **entry(figures, -1)
    )
    return [*rows, *([outside] if outside.device_ms else [])]


def _figures(rated: WithRoofline, held: I64, group: I64, count: int, own: I64, ops: I64) -> Columns:
    """The columns of places that are of their device work; the last place is what lies outside of
    all modules."""
    length = (rated.trace.device_ops.end - rated.trace.device_ops.start).astype(np.float64)
    steps = rated.timed.steps
    again = rated.joined.run_again[rated.joined.launch_node]
    device, backward, repeated = (
        np.bincount(group, weights=of[held], minlength=count)
        for of in (length, length * rated.joined.origins.backward, length * again)
    )
    alone = np.bincount(own, weights=length[ops], minlength=count)
    spent = {
        "device_ms": device,
        "forward_ms": device - backward,
        "backward_ms": backward,
        "self_ms": alone,
        "recomputed_ms": np.where(repeated > 0, repeated, np.nan),
    }
    return {
        **{name: listed(ns / steps.steady_count / NS_PER_MS) for name, ns in spent.items()},
        "share_of_step": [share_of_step(rated.timed, ns) for ns in device.tolist()],
        "share_of_device": listed(device / max(float(length[ops].sum()), 1.0)),
        **rated_columns(rated, by_group(group, held, count)),
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
    trace = timed.trace
    steps = timed.steps.steady_count
    rows = np.flatnonzero(timed.steady_host(table.start))
    groups = Groups.of(table.domain[rows], table.category[rows], table.name[rows])
    total = groups.sum((table.end - table.start)[rows])
    found = []
    for group, members in enumerate(groups.rows):
        first = rows[members[0]]
        values, counts = np.unique(table.payload[rows[members]], return_counts=True)
        shown = [
            trace.strings[v] for v in values[np.argsort(-counts, kind="stable")].tolist() if v >= 0
        ]
        more = f", {len(shown) - SHOWN_PAYLOADS} more" if len(shown) > SHOWN_PAYLOADS else ""
        payloads = ", ".join(shown[:SHOWN_PAYLOADS]) + more if shown else None
        domain, category, name = (
            trace.text(int(column[first])) for column in (table.domain, table.category, table.name)
        )
        count = len(members) / steps
        host_ms = ms(total[group]) / steps
        found.append(RangeRow(trace.rank, domain, category, name, count, host_ms, payloads))
    return sorted(found, key=lambda row: -row.host_ms)
