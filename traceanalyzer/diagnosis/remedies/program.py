"""What kind of program was recorded, as far as advice depends on it."""

import re
from typing import NamedTuple

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.causes.started import LOADERS
from traceanalyzer.analysis.names import Framework
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.replay.changes.warmup import prepared_within_steps
from traceanalyzer.replay.recorded import make_tape
from traceanalyzer.replay.tape import Tape
from traceanalyzer.trace.hardware import GIGA

_LIBRARIES = {
    "training": r"^autograd::engine|^Optimizer\.step#|multi_tensor_apply(?!.*\bCopy(?:Functor)?<)|[Aa]dam",
    "ddp": r"DistributedDataParallel|torch::distributed::reducer|distributed\.ddp",
    "fsdp": r"FSDP|FullySharded|fully_shard",
    "accelerate": r"(^|/)accelerate/|transformers/trainer\.py",
    "lightning": r"^\[pl\]|^\[Strategy\]|(lightning|pytorch_lightning)/",
    "compiled": r"^Torch-Compiled Region|^## Call CompiledFxGraph|^triton_(poi|red|per|for)_",
}
"""What names in the recording show, by fields of `Program`."""
MARKED = ("profiler_step", "nvtx", "annotation")
"""Sources of steps that begin where the program says so."""
USUAL_BUCKET_BYTES = 25 * 2**20  # DDP's bucket of gradients, unless another is set
LEAST_OF_MESSAGES = 0.04
"""Share of the step that sending gradients or parameters otherwise must save: what compute pays is
not recorded."""
MOST_IN_BACKWARD = 0.75
"""Share of the collectives that the backward pass launches where hooks reduce gradients: a few sums
are of losses."""
MOSTLY_WAITING = 0.8
"""Communication of which so much is waiting for other ranks gets no shorter by overlapping or by
sending less."""
OF_OPTIMIZER = "step of "  # how the collector's units begin that an optimizer ends
IN_GRAPHS_SHARE = 0.9
"""A step with this share of its kernels in CUDA graphs has been captured already."""


class Program(NamedTuple):
    """Libraries and ways of running that the recording shows."""

    pytorch: bool
    training: bool
    ddp: bool
    fsdp: bool
    accelerate: bool
    lightning: bool
    compiled: bool
    in_graphs: bool  # whether CUDA graphs launch (nearly) all of the step's kernels


def program(m: Measurements) -> Program:
    """What the names in the recording tell of the program."""
    return m.memo(_program)


def _program(m: Measurements) -> Program:
    stats = m.launches
    known = {name: _shows(m, re.compile(pattern)) for name, pattern in _LIBRARIES.items()}
    known["training"] |= _ends_with_optimizer(m)
    inside = (
        (stats.kernels_per_graph_launch or 0.0) * stats.graph_launches if stats is not None else 0.0
    )
    in_graphs = stats is not None and inside > 0 and inside >= IN_GRAPHS_SHARE * stats.kernels
    return Program(pytorch=m.joined.framework is Framework.PYTORCH, in_graphs=in_graphs, **known)


def _shows(m: Measurements, pattern: re.Pattern[str]) -> bool:
    return bool(texts_where(m.trace.strings, pattern.search).any())


def _ends_with_optimizer(m: Measurements) -> bool:
    """Whether the collector counted the steps of an optimizer, whatever names were recorded."""
    stopwatch = m.trace.stopwatch
    return stopwatch is not None and (stopwatch.unit or "").startswith(OF_OPTIMIZER)


def tape_of(m: Measurements) -> Tape | None:
    """The steady steps of the recording without the profiler; None where they cannot be
    replayed."""
    return None if m.replay is None else m.replay.typical[0]


def tapes_of_others(m: Measurements) -> list[Tape]:
    """The steady steps, as recorded, of the other ranks that can be replayed."""
    return [tape for tape in map(make_tape, m.peers) if tape is not None]


def may_load(m: Measurements) -> bool:
    """Whether a loader may be what prepares input that no range names: the program's functions are
    named like one, or the recorder names none, and it is prepared where input is needed: before
    what a step launches first. PyTorch's own names its DataLoader."""
    if m.trace.operators_slowed or _shows(m, LOADERS):
        return _shows(m, LOADERS)
    tape = tape_of(m)
    return tape is None or not (m.timed.steps.source in MARKED and prepared_within_steps(tape))


def reduced_by_hooks(m: Measurements) -> bool:
    """Whether gradients are reduced within the backward pass, by DDP or by hooks of the program's
    own: of a model that is itself spread over GPUs the forward pass communicates as much."""
    tape = tape_of(m)
    known = program(m)
    if tape is None or known.ddp or known.fsdp or not tape.communication.any():
        return known.ddp
    return float(tape.in_backward[tape.communication].mean()) >= MOST_IN_BACKWARD


def median_bucket(m: Measurements) -> int | None:
    """Median bytes of the kinds of reductions of the step; None without any."""
    sizes = sorted(
        row.message_bytes
        for row in m.collectives
        if row.message_bytes and row.collective == "all_reduce"
    )
    return sizes[len(sizes) // 2] if sizes else None


def waiting_share(m: Measurements) -> float | None:
    """Share of this rank's communication in which another rank had not arrived; None where ranks
    were not compared."""
    row = m.rank_row
    if (
        row is None
        or row.waiting_ms is None
        or row.transfer_ms is None
        or not row.waiting_ms + row.transfer_ms
    ):
        return None
    return row.waiting_ms / (row.waiting_ms + row.transfer_ms)


def by_links_ms(m: Measurements) -> float | None:
    """What the messages of known size would take a step at the rate of the GPU's links; None where
    the links or most of the messages are not known, or where they are not much faster."""
    gpu = None if m.timed.device is None else m.linked.gpus[m.timed.device]
    known = [row for row in m.collectives if row.bus_gbs and row.device == m.timed.device]
    total = sum(row.total_ms for row in m.collectives if row.device == m.timed.device)
    time = sum(row.total_ms for row in known)
    if gpu is None or gpu.link is None or time < MOSTLY_WAITING * total:
        return None
    least = sum(row.total_ms * (row.bus_gbs or 0.0) * GIGA / gpu.link for row in known)
    return least if least <= (1.0 - MOSTLY_WAITING) * total else None
