"""The tapes of a run that was never made, replayed: the step, its range, and what limits it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from traceanalyzer.replay.bounds import less_compute
from traceanalyzer.replay.host_speed import replay_step_ms
from traceanalyzer.replay.limits import LIMITED_DUTY, PESSIMISTIC_DUTY, duties, slowed
from traceanalyzer.replay.scenario import combined
from traceanalyzer.replay.scenarios import (
    INPUT_READY,
    LAUNCHES_FREE,
    NO_HOST_SYNCS,
    NO_HOST_WORK,
)
from traceanalyzer.replay.simulate import step_times_ns
from traceanalyzer.replay.tape import Tape
from traceanalyzer.replay.unmade.formats import AS_ADVISED
from traceanalyzer.replay.unmade.larger_batch import larger_batch_scenario
from traceanalyzer.replay.unmade.made import (
    HIDDEN_APART,
    HOST_APART,
    RunPlan,
    parts_of,
    with_host,
)
from traceanalyzer.replay.unmade.question import QuestionError
from traceanalyzer.replay.unmade.ranks import NODE_RANKS, messages_apart
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Sizes
from traceanalyzer.replay.whatif import LEAST_DEVICE_WORK, Replay

GPU_LIMITED = 0.92
"""A step is limited by the GPU where without the host's time it would still take this share."""
MOST_BATCH = 256
"""How many times the recorded batch is looked at for where the GPU becomes the limit."""
MATRIX_SHARE = 0.5
"""Share of the kernels' time from which products are what limits the GPU."""
SAME = 1e-9
"""Relative difference of two figures of one thing."""
UNSURE_SPEEDUP = 1.05
"""A larger batch that is to gain less may gain nothing; what gains more is advised, and of 36 such
predictions all gained."""
OWN_SPREAD = 0.06
"""How far a prediction may be off whatever changes: two runs of one program differ."""

WITHOUT_HOST = combined(NO_HOST_SYNCS, LAUNCHES_FREE, NO_HOST_WORK, INPUT_READY).change


class UnmadeRun:
    """The tapes of a plan, and what they take."""

    def __init__(self, replay: Replay, plan: RunPlan) -> None:
        self.replay = replay
        self.plan = plan
        self.parts = parts_of(replay.typical, plan)

    def step_ms(self) -> float:
        """The step as it would run."""
        return self._ms([part.tape for part in self.parts], LIMITED_DUTY) + self._beyond_ms

    def range_ms(self, step: float) -> tuple[float, float]:
        """Its 90 % range: a fast host and faster kernels, a slow one and slower ones."""
        replay = self.replay
        as_advised = self._range_as_advised(step)
        if as_advised is not None:
            return as_advised
        fastest = self._ms(self._on(replay.fast_host, -1.0), 1.0)
        apart = HIDDEN_APART if self._is_host_hidden() else HOST_APART
        slowest = self._ms(self._on(replay.slow_host, 1.0, apart), PESSIMISTIC_DUTY)
        shorter, longer = messages_apart(self.plan.ranks or NODE_RANKS)
        fastest += self._beyond_ms * (1.0 - shorter)
        slowest += self._beyond_ms * (1.0 + longer)
        own = OWN_SPREAD * step
        low = step - math.hypot(max(step - fastest, 0.0), own)
        high = step + math.hypot(max(slowest - step, 0.0), own)
        return max(low, self._least_ms(step)), high

    def _least_ms(self, step: float) -> float:
        """What the step takes at least: where all that changes is that there is more to do, no less
        than the step of now, nor than the GPU works."""
        plan = self.plan
        if plan.gpu is not None or plan.precision is not None or plan.loading < 1.0:
            return 0.0
        if plan.ranks is not None:
            return 0.0
        works = LEAST_DEVICE_WORK * self.gpu_ms
        return min(max(self.replay.range_ms[0], works), step)

    def _range_as_advised(self, step: float) -> tuple[float, float] | None:
        """The range that the report has for the same change, or for none; None where it has no such
        advice."""
        plan = self.plan
        if plan.is_empty:
            return self.replay.range_ms
        if plan.gpu is not None or plan.ranks is not None:
            return None
        if plan.sizes is not None:
            return self._range_of_larger_batch(plan.sizes, step)
        scenario = AS_ADVISED.get(plan.precision or "")
        advised = None if scenario is None else self.replay.predict(scenario)
        if advised is None or advised.step_ms is None:
            return None
        if not math.isclose(advised.step_ms, step, rel_tol=SAME):
            return None
        return advised.low_ms or 0.0, advised.high_ms or step

    def _range_of_larger_batch(self, sizes: Sizes, step: float) -> tuple[float, float] | None:
        """The range that the advice to raise the batch so many times has, for all of that batch."""
        times, rest = divmod(sizes.batch, sizes.now.batch)
        if rest or times < 2 or sizes.length_ratio != 1.0 or self.plan.precision is not None:
            return None
        advised = self.replay.predict(larger_batch_scenario(times))
        if advised.step_ms is None or advised.low_ms is None or advised.high_ms is None:
            return None
        larger = step / advised.step_ms
        low = max(advised.low_ms * larger, self._least_ms(step))
        is_sure = self.replay.base_ms >= UNSURE_SPEEDUP * advised.step_ms
        unsure = 0.0 if is_sure else OWN_SPREAD
        return low, max(advised.high_ms * larger, step * (1.0 + unsure))

    @property
    def _beyond_ms(self) -> float:
        return max(part.beyond_ms for part in self.parts)

    @cached_property
    def gpu_ms(self) -> float:
        """The step where the host takes no time."""
        return self._under(WITHOUT_HOST, [part.tape for part in self.parts]) + self._beyond_ms

    def gpu_share(self, step: float) -> float:
        """Share of the step that is left where the host takes no time."""
        return self.gpu_ms / step if step else 1.0

    def bottleneck(self, step: float) -> str:
        """What limits the step, in words."""
        share = self.gpu_share(step)
        tape = self.parts[0].tape
        if share >= GPU_LIMITED:
            return _of_gpu(tape)
        without: dict[str, Callable[[Tape], Tape | None]] = {
            _of_gpu(tape): less_compute(1.0),
            "launches: the host issues them slower than the GPU works": LAUNCHES_FREE.change,
            "input: the loader brings batches slower than the GPU works": INPUT_READY.change,
            "the host's own work between launches": NO_HOST_WORK.change,
            "syncs: the host waits for the GPU, and the GPU for it": NO_HOST_SYNCS.change,
        }
        tapes = [part.tape for part in self.parts]
        left = {name: self._under(change, tapes) for name, change in without.items()}
        return min(left, key=lambda name: left[name])

    def _under(self, change: Callable[[Tape], Tape | None], tapes: Sequence[Tape]) -> float:
        changed = [change(tape) or tape for tape in tapes]
        return replay_step_ms(changed) * self.replay.scale

    def _is_host_hidden(self) -> bool:
        """Whether the device sets the pace of the recorded step."""
        now = self._under(WITHOUT_HOST, self.replay.typical)
        return now >= GPU_LIMITED * self.replay.base_ms

    def _on(self, hosts: Sequence[Tape], kernels: float, apart: float = HOST_APART) -> list[Tape]:
        typical = self.replay.typical
        return [
            with_host(part, host, base, kernels, apart)
            for part, host, base in zip(self.parts, hosts, typical, strict=True)
        ]

    def _ms(self, tapes: Sequence[Tape], limited: float) -> float:
        """Step time of tapes, with the clocks that the power limit leaves."""
        replay = self.replay
        times = step_times_ns(tapes)
        lower = slowed(tapes, replay.duty, duties(tapes, times), limited)
        return replay_step_ms(tapes if lower is None else lower) * replay.scale


def _of_gpu(tape: Tape) -> str:
    time = tape.duration.astype(np.float64)
    total = float(time.sum()) or 1.0
    exposed = float(time[tape.communication].sum()) / total
    if exposed > MATRIX_SHARE:
        return "communication"
    matrix = float(time[tape.source.linked.is_matrix[tape.row]].sum()) / total
    what = "compute" if matrix >= MATRIX_SHARE else "memory bandwidth"
    return f"GPU {what}: matrix kernels take {matrix:.0%} of its time"


def gpu_limit_from(
    replay: Replay, plan: RunPlan, now: Dimensions | None, share: float
) -> int | None:
    """The smallest batch at which the GPU limits the step, where it does not as asked; None where
    it does already, never, or where the batch is not known."""
    if now is None or share >= GPU_LIMITED:
        return None
    start = plan.sizes or Sizes(now, now.batch, now.context)

    def limited(batch: int) -> bool:
        run = UnmadeRun(replay, replace(plan, sizes=replace(start, batch=batch)))
        return run.gpu_share(run.step_ms()) >= GPU_LIMITED

    low = start.batch
    high = low
    try:
        while not limited(high):
            low = high
            high = high * 2
            if high > MOST_BATCH * now.batch:
                return None
        while high - low > max(low // 8, 1):
            middle = (low + high) // 2
            low, high = (low, middle) if limited(middle) else (middle, high)
    except QuestionError:
        return None
    return high
