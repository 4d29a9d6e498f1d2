"""What was wrong with a Kineto file, counted and in plain sentences."""

import numpy as np

from traceanalyzer.ingest.columns import looked_up
from traceanalyzer.ingest.kineto.chunks import KinetoFile
from traceanalyzer.ingest.kineto.events import Group
from traceanalyzer.ingest.kineto.rows import Rows
from traceanalyzer.trace import ApiCalls, DeviceOps, Health

_SYSTEMATIC_SHARE = 0.01  # of device ops that start before their launch: above, the two clocks disagree
_CLOCK_ERROR_NS = 1_000  # host and device are aligned to about a microsecond; less is not a disagreement


def make_health(
    file: KinetoFile, rows: Rows, damage: str, clipped: int, ops: DeviceOps, api: ApiCalls, pids: list[int], remark: str
) -> Health:
    """Counts and notes for the report."""
    repaired, lost = rows.repaired + sum(columns.mended for columns in rows.tables.values()), rows.lost
    ids = ", ".join(map(str, sorted(pids)[:4]))
    notes = {
        f"The file ends early, after {rows.events:,} events: {damage}.": damage,
        f"The file is cut off after {rows.events:,} events: its list is not closed.": file.truncated and not damage,
        f"The file holds {file.arrays} recordings written one after the other; they are read as one.": file.arrays > 1,
        f"The file holds events of {len(pids)} processes (pid {ids}); their correlation ids and streams may clash: "
        "write one file for each process.": len(pids) > 1,
        f"{repaired:,} events or values were damaged and could be mended.": repaired,
        f"{lost:,} events were damaged and are missing from all figures.": lost,
        f"{clipped:,} device operations had impossible durations and were cut at the next one's start.": clipped,
    }
    told = [note for note, there in notes.items() if there]
    return Health(
        events=rows.events,
        skipped=rows.skipped,
        repaired=repaired,
        lost=lost,
        clipped=clipped,
        truncated=file.truncated or bool(damage),
        notes=tuple(filter(None, [*told, _clock_note(ops, api), remark, *unread(rows)])),
    )


def unread(rows: Rows) -> list[str]:
    """What rows that are only counted hold."""
    ranges, insight = rows.counts[Group.RANGE_COUNTERS], rows.counts[Group.MTIA]
    notes = {
        f"{ranges:,} rows are counters of CUPTI's range profiler (cuda_profiler_range): their times are made up by "
        "the recorder, so they are on no timeline; `traceanalyzer collect ncu` measures kernels.": ranges,
        f"{insight:,} rows are MTIA's own counters and insights, which are not read.": insight,
    }
    return [note for note, there in notes.items() if there]


def _clock_note(ops: DeviceOps, api: ApiCalls) -> str:
    """Whether device work begins before its launch so often that the clocks must disagree."""
    calls = np.flatnonzero(api.correlation > 0)
    launched = np.flatnonzero(ops.correlation > 0)
    order = calls[np.argsort(api.correlation[calls], kind="stable")]
    call = looked_up(api.correlation[order], order, ops.correlation[launched])
    early = api.start[call[call >= 0]] - ops.start[launched[call >= 0]]
    count = int(np.count_nonzero(early > _CLOCK_ERROR_NS))
    if count <= _SYSTEMATIC_SHARE * max(len(early), 1):
        return ""
    return (
        f"{count:,} device operations start before the call that launched them, by up to {early.max() / 1000:,.0f} us: "
        "the clocks of host and device disagree, queue delays are not reliable."
    )
