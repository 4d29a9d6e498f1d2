"""What each operator and each device op of a step is for: forward, backward, optimizer, data,
logging, checkpoint.

An annotation says it by its name, the innermost one that does; where none says it, autograd tells
forward, backward and optimizer (`derived_phases`). So each op has one role, or none."""

from functools import cached_property

import numpy as np

from traceanalyzer.analysis.algebra import Column, at, dedup_constant, isin_few, union
from traceanalyzer.analysis.names.phase_names import Role, role_of
from traceanalyzer.analysis.phases.derived_phases import roles_by_autograd
from traceanalyzer.analysis.phases.phase_ranges import PhaseRanges, phase_ranges
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, maybe, metric, ms, regex
from traceanalyzer.trace import I64, U8, Bool, RangeKind, Trace

NUMBER = regex(r"0x[0-9a-fA-F]+|\d+")  # in which names of instances of one phase may differ
ROLES = tuple(role for role in Role if role is not Role.NONE)
RECOMPUTATION = "recomputation"
BETWEEN_UPDATES = "between optimizer ranges"
"""From an update to the zero_grad() of the next step, say: where the next batch is sent."""


@dataclass(frozen=True, eq=False)
class Phases:
    """Which phases there are, and the `Role` of everything."""

    ranges: PhaseRanges
    by_autograd: U8  # role of each node of the host tree as autograd alone tells it
    start: Column  # when each node of the host tree begins, ns
    of_node: U8  # role of each node of the host tree
    of_op: U8  # role of each device op

    def name_of(self, trace: Trace, node: int) -> str | None:
        """The phase that a node of the host tree lies in: the innermost annotated one, without
        numbers, else what autograd tells, else the roles of what the host did before and after it;
        None where nothing has a role."""
        instance = int(self.ranges.of_node[node])
        if instance >= 0:
            return NUMBER.sub("#", trace.strings[trace.host_ranges.name[self.ranges.row[instance]]])
        if self.of_node[node]:
            return Role(int(self.of_node[node])).label
        after = int(np.searchsorted(self.moments[0], self.start[node]))
        roles = self.moments[1][max(after - 1, 0) : after + 1]
        around = [Role(int(role)).label for role in roles]
        if len(roles) == 2 and (roles == Role.OPTIMIZER).all():
            return BETWEEN_UPDATES  # what an optimizer launches lies in its ranges
        return (
            f"between {around[0]} and {around[1]}"
            if len(set(around)) == 2
            else next(iter(around), None)
        )

    def named_by(self, trace: Trace, node: I64) -> tuple[I64, U8, U8, U8]:
        """What `name_of` names these nodes by: the name code of their phase (-1: none), their role,
        and the roles of what the host did before and after; nodes with the same four have the same
        name."""
        instance = self.ranges.of_node[node]
        role = self.of_node[node]
        name = at(trace.host_ranges.name[self.ranges.row], instance, -1).astype(np.int64)
        none = [Role.NONE]
        around = np.concatenate((none, self.moments[1], none)).astype(np.uint8)
        after = np.searchsorted(self.moments[0], self.start[node])
        told = (name >= 0) | (role > 0)
        return (
            name,
            role,
            np.where(told, np.uint8(0), around[after]),
            np.where(told, np.uint8(0), around[after + 1]),
        )

    @cached_property
    def moments(self) -> tuple[I64, U8]:
        """When nodes with a role begin, in time order, and their roles."""
        known = np.flatnonzero(self.of_node)
        known = known[np.argsort(self.start[known], kind="stable")]
        return self.start[known], self.of_node[known]


@dataclass(frozen=True)
class PhaseTime:
    """What is of one role in a mean steady step."""

    host_ms: float = metric(
        "time a step in which any host thread is in one of its ranges or operators"
    )
    device_ms: float | None = metric(
        "time a step with work on the device (union) that it launched; null without device work"
    )
    waits: float = metric(
        "calls a step in it that block the CPU until the GPU has finished something"
    )


@dataclass(frozen=True)
class PhaseTimes:
    """The step by what its work is for. Null: the recording shows none of it."""

    forward: PhaseTime | None = metric(
        "the forward pass; null where neither annotations nor autograd tell it"
    )
    backward: PhaseTime | None = metric(
        "the backward pass; null where neither annotations nor autograd tell it"
    )
    optimizer: PhaseTime | None = metric(
        "the optimizer's step and zero_grad; null where it was not recorded"
    )
    data: PhaseTime | None = metric("loading of input data; null without a range of such a name")
    logging: PhaseTime | None = metric("logging; null without a range of such a name")
    checkpoint: PhaseTime | None = metric(
        "saving of checkpoints; null without a range of such a name"
    )
    recomputation: PhaseTime | None = maybe(
        "the part of the backward pass in which operators of the forward pass run again (activation checkpointing); "
        "null where none does"
    )

    def host_ms(self) -> dict[str, float]:
        """The host's time a step by phase, ms; recomputation is part of the backward pass."""
        return {
            name: time.host_ms
            for name, time in vars(self).items()
            if time is not None and name != RECOMPUTATION
        }


def find_phases(timed: Timed) -> Phases:
    """The phases of a trace, and what belongs to them."""
    ranges = phase_ranges(timed)
    told = roles_by_autograd(timed.linked)
    strings = timed.trace.strings
    codes = timed.trace.host_ranges.name[ranges.row].tolist()
    of_name = {code: role_of(strings[code]) for code in set(codes)}
    roles: list[int] = []  # of each instance: its own name's, else that of the phase around it
    for code, above in zip(codes, ranges.parent.tolist(), strict=True):
        roles.append(of_name[code] or (roles[above] if above >= 0 else Role.NONE))
    of_instance = np.array([*roles, Role.NONE], np.uint8)
    of_node = of_instance[ranges.of_node]
    of_op = of_instance[ranges.of_op]
    of_launch = at(told, timed.joined.launch_node, 0)
    of_all = (
        dedup_constant(np.where(of_node, of_node, told)),
        dedup_constant(np.where(of_op, of_op, of_launch)),
    )
    return Phases(ranges, dedup_constant(told), timed.linked.tree.start, *of_all)


def phase_times(timed: Timed, phases: Phases) -> PhaseTimes | None:
    """The mean steady step by role; None where nothing has one."""
    found = {
        role.label: _time(timed, phases.of_node == role, phases.of_op == role) for role in ROLES
    }
    again = timed.joined.run_again
    found[RECOMPUTATION] = _time(timed, again[:-1], again[timed.joined.launch_node])
    return PhaseTimes(**found) if any(found.values()) else None


def _time(timed: Timed, of_node: Bool, of_op: Bool) -> PhaseTime | None:
    ops = timed.trace.device_ops
    table = timed.trace.host_ranges
    tree = timed.linked.tree
    rows = tree.row[of_node & isin_few(tree.kind, (RangeKind.OP, RangeKind.ANNOTATION))]
    rows = rows[timed.steady_host(table.start[rows])]
    ops_of_role = np.flatnonzero(of_op & timed.steady_ops & (ops.device == (timed.device or 0)))
    if not len(rows) and not len(ops_of_role):
        return None
    steps = timed.steps.steady_count
    end = timed.until_steady_end(table.end[rows])
    blocks = timed.joined.blocks & of_node[tree.node_of_call[:]] & timed.steady_calls
    return PhaseTime(
        host_ms=ms(union(table.start[rows], end).total / steps),
        device_ms=None
        if timed.device is None
        else ms(union(ops.start[ops_of_role], ops.end[ops_of_role]).total / steps),
        waits=float(blocks.sum()) / steps,
    )
