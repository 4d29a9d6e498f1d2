"""More or fewer ranks, each with as much work as now.

Messages of gradients and of sharded parameters keep their size, and take a latency and their
traffic over a link (alpha-beta): within a node the GPU's own links, beyond it the network of its
generation. Where collectives were recorded, the curve only says how their time changes with the
number of ranks; where one rank was recorded, DDP's buckets are laid beside the backward pass. Ranks
that split layers have other shapes with another number of ranks: that is refused."""

import math

import numpy as np

from traceanalyzer.analysis.names.collectives import KINDS, bus_factor
from traceanalyzer.analysis.roofline.op_models.optimizer import ACCUMULATE
from traceanalyzer.base import NS_PER_MS, NS_PER_S, NS_PER_US, dataclass
from traceanalyzer.replay.bounds import communication_free
from traceanalyzer.replay.changes.communication.collectives import (
    FORWARD_SHARE,
    LAST_BUCKET,
    OVERLAP_COST,
    REDUCTIONS,
    SHARDING,
    kinds,
    of_kind,
    sizes,
    transfers,
)
from traceanalyzer.replay.patterns.named import launched_within
from traceanalyzer.replay.patterns.operators import operators
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.trace import F64
from traceanalyzer.trace.hardware import Hardware

NODE_RANKS = 8
"""Ranks that share a node's links; larger racks aside."""
OF_LINK = 0.75
"""Share of the links' rate that large collectives reach (all_reduce of 1 GiB on two and four H200:
0.74 and 0.79)."""
LATENCY_US = 20.0
HOP_US = 3.0
"""What a message takes whatever its size, and more for each doubling of ranks (16 MB on two and four
H200: 25 and 27 us beyond its traffic)."""
NETWORK = 45e9
SLOW_NETWORK = 22e9
FAST_LINK = 400e9
"""Bytes a second of a port of the network: of GPUs whose own links are this fast one of 400 Gb/s,
of others one of 200 Gb/s, nine tenths of it (DGX H100 and DGX A100 datasheets: eight ports of
ConnectX-7 and ConnectX-6)."""
SWITCHED_LINK = 200e9
"""GPUs whose own links are this fast stand in nodes with a port for each of them; others share
one."""
OF_PORTS = 0.8
"""Share of a node's ports that a large collective reaches: NCCL lays its rings and trees over all of
them, and each GPU carries its share of the message over its own. nccl-tests, all_reduce: 216 to 231
GB/s on 2 nodes of 8 H100 (NVIDIA/nccl issue 2409), about 350 on 248 nodes of 8 H200, at times below
300 (NVIDIA/nccl-tests issue 283), 96 on 3 nodes of 8 A100 with 4 ports of 200 Gb/s (issue 119)."""
PAIRWISE = ("all_to_all", "gather", "scatter", "send", "recv", "send_recv")
"""Kinds whose messages go from one GPU to another, over that GPU's own port."""
NETWORK_LATENCY_US = 30.0
NETWORK_HOP_US = 6.0
FOUR = 4.0
"""Bytes of a gradient."""
SPLIT_LAYERS = (
    "the ranks exchange the layers' own results: more of them split each layer into other shapes, "
    "which were not recorded"
)
NO_GRADIENTS = (
    "one rank without a backward pass was recorded: what several would exchange is not known"
)
SPREAD = 0.4
"""How far the time of messages may be off, where their links were not recorded with so many
ranks."""
SLOWER_NETWORK = 1.0
"""How much longer they may take over a network, which no recording here was made on: twice, as on
the slowest of those nodes."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """A tape on so many ranks, what a step takes beyond it, and what that rests on."""

    tape: Tape
    beyond_ms: float
    exchanged: F64
    """How much of each op's time goes with that of messages."""
    basis: str


def on_ranks(tape: Tape, gpu: Hardware | None, ranks: int) -> Scaled:
    """The tape on so many ranks. Raises QuestionError where the recording does not tell."""
    world = max(tape.source.trace.process.world_size or 1, 1)
    none = np.zeros(len(tape.row))
    if ranks == world:
        return Scaled(tape, 0.0, none, f"{ranks} ranks, as recorded")
    if tape.communication.any():
        return _rescaled(tape, gpu, world, ranks)
    if ranks == 1:
        return Scaled(tape, 0.0, none, "one rank exchanges nothing")
    return _distributed(tape, gpu, ranks)


def transfer_ns(kind: str, bytes_: float, ranks: int, gpu: Hardware | None) -> float:
    """What a collective of this kind and size takes over so many ranks, ns."""
    hops = math.log2(max(ranks, 2))
    link = gpu.link if gpu is not None and gpu.link else FAST_LINK
    rate = link * OF_LINK
    latency_us = LATENCY_US + HOP_US * hops
    if ranks > NODE_RANKS:
        rate = min(rate, _network_rate(kind, link))
        latency_us = NETWORK_LATENCY_US + NETWORK_HOP_US * hops
    moved = bytes_ * (bus_factor(kind, ranks) or 1.0)
    return latency_us * NS_PER_US + moved / rate * NS_PER_S


def messages_apart(ranks: int) -> tuple[float, float]:
    """How much shorter and how much longer messages over so many ranks may take, as shares."""
    return SPREAD, SLOWER_NETWORK if ranks > NODE_RANKS else SPREAD


def data_parallel(tape: Tape) -> int:
    """How many recorded ranks work on samples of their own: those that exchange gradients or
    parameters, and no results of layers; 1 where they do not."""
    world = max(tape.source.trace.process.world_size or 1, 1)
    shares = of_kind(tape, *REDUCTIONS).any() and not _splits_layers(tape)
    return world if shares else 1


def _network_rate(kind: str, link: float) -> float:
    """Bytes a second of a collective between nodes, as its bus bandwidth counts them."""
    port = NETWORK if link >= FAST_LINK else SLOW_NETWORK
    ports = 1 if kind in PAIRWISE or link < SWITCHED_LINK else NODE_RANKS
    return port if ports == 1 else port * ports * OF_PORTS


def _rescaled(tape: Tape, gpu: Hardware | None, world: int, ranks: int) -> Scaled:
    if _splits_layers(tape):
        raise QuestionError(SPLIT_LAYERS)
    none = np.zeros(len(tape.row))
    if ranks == 1:
        return Scaled(communication_free(tape), 0.0, none, "one rank exchanges nothing")
    size = np.maximum(sizes(tape), 0)
    kind = kinds(tape)
    ratio = np.ones(len(tape.row))
    for op in np.flatnonzero(tape.communication).tolist():
        name = KINDS[kind[op]]
        now = transfer_ns(name, float(size[op]), world, gpu)
        ratio[op] = transfer_ns(name, float(size[op]), ranks, gpu) / now
    moved = np.minimum(transfers(tape), tape.duration)
    time = tape.duration + moved * (ratio - 1.0) * tape.communication
    basis = f"messages of {world} ranks over {ranks}: {_links(gpu, ranks)}"
    return Scaled(tape.retimed(time), 0.0, tape.communication.astype(np.float64), basis)


def _splits_layers(tape: Tape) -> bool:
    """Whether much of what is reduced is in the forward pass, and is no sharded parameter."""
    reduced = of_kind(tape, *REDUCTIONS) & ~launched_within(tape, SHARDING)
    moved = np.where(reduced, np.maximum(sizes(tape), 0), 0)
    forward = float(moved[~tape.in_backward & ~tape.in_optimizer].sum())
    total = float(moved.sum())
    untold = bool(tape.in_optimizer.any()) and not bool(tape.in_backward.any())
    return total > 0 and forward > FORWARD_SHARE * total and not untold


def _distributed(tape: Tape, gpu: Hardware | None, ranks: int) -> Scaled:
    """DDP laid over one rank: buckets beside the backward pass, the last one behind it."""
    total = _gradient_bytes(tape)
    backward = tape.in_backward & tape.compute
    if not total or not backward.any():
        raise QuestionError(NO_GRADIENTS)
    buckets = max(math.ceil(total / LAST_BUCKET), 1)
    each = transfer_ns("all_reduce", total / buckets, ranks, gpu)
    hidden_room = float(tape.duration[backward].sum()) / tape.steps
    hidden = min(each * (buckets - 1), hidden_room)
    exposed = each * buckets - hidden
    slower = 1.0 + OVERLAP_COST * hidden / max(hidden_room, 1.0)
    time = np.where(backward, tape.duration * slower, tape.duration)
    basis = (
        f"DDP on {ranks} ranks: {total / 1e6:.0f} MB of gradients in {buckets} buckets beside the "
        f"backward pass; {_links(gpu, ranks)}"
    )
    exchanged = np.where(backward, slower - 1.0, 0.0)
    return Scaled(tape.retimed(time), exposed / NS_PER_MS, exchanged, basis)


def _gradient_bytes(tape: Tape) -> float:
    """Bytes of the gradients of one step; 0 where they were not recorded."""
    linked = tape.source.linked
    trace = tape.source.trace
    codes = [i for i, text in enumerate(trace.strings) if text == ACCUMULATE]
    rows = np.flatnonzero(np.isin(trace.host_ranges.name, codes))
    inside = rows[tape.source.timed.steady_host(trace.host_ranges.start[rows])]
    steps = max(tape.source.timed.steps.steady_count, 1)
    found = operators(linked).of_rows(inside)
    return sum(float(math.prod(one.first)) for one in found if one.first) * FOUR / steps


def _links(gpu: Hardware | None, ranks: int) -> str:
    if ranks > NODE_RANKS:
        return (
            "the network of its generation, one port for each GPU (datasheets of DGX systems), of "
            f"which NCCL uses {OF_PORTS:.0%} in all (nccl-tests on 2 to 248 such nodes)"
        )
    return f"links of {gpu.name}: {gpu.source}" if gpu is not None else "links of one node"
