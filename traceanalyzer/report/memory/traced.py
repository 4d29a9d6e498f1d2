"""What a trace adds to the memory report of the snapshot that was recorded with it."""

from dataclasses import replace
from functools import partial
from itertools import chain

from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.replay.changes.loops.repetition import GREATER_BATCH, enlarged
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.replay.whatif import Replay
from traceanalyzer.report.memory.model import Traced
from traceanalyzer.trace import Run
from traceanalyzer.trace.snapshot import Snapshot


def traced(run: Run, snapshot: Snapshot) -> Traced:
    """Times of the critical rank's step, its operators by memory, and the size of each GPU. The
    snapshot is taken to be of the trace's process where there is one trace."""
    if len(run.traces) == 1:
        run = replace(run, traces=(replace(run.traces[0], memory=snapshot),))
    critical = measured(run).critical
    time = critical.step_time
    replay = critical.replay
    devices = chain.from_iterable(trace.devices for trace in run.traces)
    return Traced(
        step_ms=time.mean if time else None,
        forward_ms=next(
            (row.device_ms for row in critical.phase_rows if row.name == "forward"), None
        ),
        capacity_bytes={
            device.id: device.memory_bytes for device in devices if device.memory_bytes
        },
        operators=tuple(critical.op_memory),
        sample_speedup=partial(_speedup, replay)
        if replay is not None and replay.faithful
        else None,
    )


def _speedup(replay: Replay, times: float) -> float | None:
    """The time of a sample now over its time with so many times the batch."""
    priced = min(times, float(GREATER_BATCH))
    scenario = Scenario(
        "larger_batch", partial(enlarged, times=priced), f"{priced:g} times the batch"
    )
    return replay.predict(scenario).speedup
