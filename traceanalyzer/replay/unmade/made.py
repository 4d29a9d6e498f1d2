"""The tapes of a run that was never made."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.base import dataclass
from traceanalyzer.replay.patterns.parameters import parameters_of
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.curve import GpuLimits, limits_on, on_gpu_ns, resized_ns
from traceanalyzer.replay.unmade.formats import in_format
from traceanalyzer.replay.unmade.ranks import messages_apart, on_ranks
from traceanalyzer.replay.unmade.resized import Resizer, Sizes
from traceanalyzer.replay.unmade.sorted_gradients import with_sorted_gradients
from traceanalyzer.replay.unmade.work import Loads, OpLoad, check_answerable, loads_of_tape
from traceanalyzer.trace import F64
from traceanalyzer.trace.hardware import Hardware

SIZE_SPREAD = 0.05
DOUBLING_SPREAD = 0.035
"""How far the time of kernels of another batch may be off, and how much more for each doubling: their
library may choose others. Of 82 sealed steps that the GPU paces nine in ten are within 0.77 of what 0.06
and 0.045 say."""
OF_LENGTH = 2.0
"""How many times as far it may be off at another length: attention grows by another law, and works in
tiles. Of 19 such steps 15 are within 1.3 times as far, 17 within 2.2."""
FORMAT_SPREAD = 0.27
"""How far the time of kernels in another number format may be off: they are other kernels. With 0.2 24
of 33 sealed steps that the GPU paces held."""
GPU_SPREAD = 0.08
"""How far the time of kernels on another GPU of the table may be off."""
HOST_APART = 1.7
"""How many times as far as a recording's fast and slow host the host of another process may be: of
138 sealed steps that the host paces 80 % held with 1.4, and nine in ten are within 1.4 times as far."""

HIDDEN_APART = 2.9
"""The same for a slow host where the device set the recorded pace: the host is then known by its
fastest step alone. Of eleven programs the host of another process took 1.0 to 1.7 times as long."""


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What changes: sizes (None: as recorded), number format, GPU."""

    sizes: Sizes | None = None
    precision: str | None = None
    gpu: Hardware | None = None
    ranks: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all stays as recorded."""
        return all(one is None for one in (self.sizes, self.precision, self.gpu, self.ranks))

    @property
    def loading(self) -> float:
        """How many times as long the host takes to bring a batch."""
        return self.sizes.batch_ratio * self.sizes.length_ratio if self.sizes else 1.0


@dataclass(frozen=True, eq=False)
class PlannedTape:
    """A rank's tape without the profiler, as it would run, and what is known of that."""

    tape: Tape
    loads: Loads
    then: OpLoad
    limits: GpuLimits
    spread: F64
    """Share of its time by which each op may be shorter."""
    longer: F64
    """Share of its time by which each op may be longer."""
    beyond_ms: float = 0.0
    """What a step takes beyond the tape: exchanges that none was recorded of."""
    basis: str = ""


def planned(tape: Tape, plan: RunPlan) -> PlannedTape:
    """The tape under a plan. Raises QuestionError where the recording does not tell."""
    resizer = (
        None if plan.sizes is None else Resizer(plan.sizes, tape.source.joined.memo(parameters_of))
    )
    loads = loads_of_tape(tape, resizer)
    limits_now = limits_on(tape, tape.source.linked.gpus)
    changed = tape
    spread = np.zeros(len(tape.row))
    if resizer is not None:
        check_answerable(tape, loads, resizer.sizes, _what(resizer.sizes))
        changed = _loaded(tape.retimed(resized_ns(tape, loads, limits_now)), plan.loading)
        changed = with_sorted_gradients(changed, resizer)
        spread = _size_spread(loads, resizer.sizes)
    then = loads.then
    limits = limits_now
    if plan.precision is not None:
        formatted = in_format(changed, then, limits_now, plan.precision)
        changed = formatted.tape
        then = formatted.load
        limits = formatted.limits
        spread = np.hypot(spread, FORMAT_SPREAD * formatted.changed)
    if plan.gpu is not None:
        changed, limits = _on_gpu(changed, then, limits, plan.gpu)
        moved = changed.compute
        spread = np.hypot(spread, GPU_SPREAD * moved)
    if plan.ranks is None:
        return PlannedTape(changed, loads, then, limits, spread, spread)
    gpu = plan.gpu or next(iter(tape.source.linked.gpus.values()), None)
    scaled = on_ranks(changed, gpu, plan.ranks)
    shorter, longer = messages_apart(plan.ranks)
    return PlannedTape(
        scaled.tape,
        loads,
        then,
        limits,
        np.hypot(spread, shorter * scaled.exchanged),
        np.hypot(spread, longer * scaled.exchanged),
        scaled.beyond_ms,
        scaled.basis,
    )


def _size_spread(loads: Loads, sizes: Sizes) -> F64:
    """How far each op with another size may be off, as a share of its time."""
    doublings = np.abs(np.log2(np.maximum(loads.growth, 1e-6)))
    further = 1.0 if sizes.length_ratio == 1.0 else OF_LENGTH
    spread = further * (SIZE_SPREAD + DOUBLING_SPREAD * doublings)
    result: F64 = np.where(doublings > 0, spread, 0.0)
    return result


def with_host(
    part: PlannedTape, tape: Tape, base: Tape, kernels: float, apart: float = HOST_APART
) -> Tape:
    """The part's device work on the host of another tape of the same recording, so many times as
    far `apart`; `base` is the tape that the part was made of, `kernels` how many of its spreads the
    ops take more."""
    off = part.longer if kernels > 0 else part.spread
    duration = part.tape.duration * (1.0 + kernels * off)
    dispatch = base.dispatch + apart * (tape.dispatch - base.dispatch)
    work = base.work + apart * (tape.work - base.work)
    changed = part.tape.dispatch / np.maximum(base.dispatch, 1)
    dispatched = np.where(base.dispatch > 0, changed, 1.0)
    loaded = part.tape.loading / np.maximum(base.loading, 1)
    times = float(np.where(base.loading > 0, loaded, 1.0).max(initial=1.0))
    other = replace(tape, work=np.rint(np.maximum(work, 0)).astype(np.int64))
    hosted = other.with_dispatch(np.maximum(dispatch, 0) * dispatched)
    return _loaded(hosted, times).retimed(duration)


def _on_gpu(
    tape: Tape, load: OpLoad, limits_now: GpuLimits, gpu: Hardware
) -> tuple[Tape, GpuLimits]:
    gpus: dict[int, Hardware | None] = dict.fromkeys(tape.source.linked.gpus, gpu)
    limits_then = limits_on(tape, gpus, tape.source.roofline.precision[tape.row])
    return tape.retimed(
        on_gpu_ns(tape, tape.duration.astype(np.float64), load, limits_now, limits_then)
    ), limits_then


def _loaded(tape: Tape, times: float) -> Tape:
    """The host brings so many times as much data."""
    if times == 1.0:
        return tape
    loading = np.rint(tape.loading * times).astype(np.int64)
    return replace(
        tape, loading=loading, tail=tape.tail._replace(loading=round(tape.tail.loading * times))
    )


def _what(sizes: Sizes) -> str:
    named = []
    if sizes.batch != sizes.now.batch:
        named.append("the batch")
    if sizes.length_ratio != 1.0:
        named.append("the length")
    return " and ".join(named) or "the batch"


def parts_of(tapes: Sequence[Tape], plan: RunPlan) -> list[PlannedTape]:
    """The tapes of all ranks under a plan."""
    return [planned(tape, plan) for tape in tapes]
