"""Which process a row belongs to, where the row itself does not say."""

import numpy as np

from traceanalyzer.ingest.durations import Tally
from traceanalyzer.ingest.nsys.events import UNKNOWN, ProcessEvents, distinct_rows, process_key
from traceanalyzer.ingest.sqlite.database import Database
from traceanalyzer.trace import I64

NOBODY = 0  # key of the only process of an export that names none


class Owners:
    """The processes of an export and the CUDA contexts and streams that are known to be theirs."""

    def __init__(
        self, database: Database, ops: ProcessEvents, calls: ProcessEvents, nvtx: ProcessEvents
    ) -> None:
        """From device work, CUDA calls and ranges, of which a part names its process."""
        known = {*ops.processes, *calls.processes} - {UNKNOWN} or {*nvtx.processes} - {UNKNOWN}
        self._ops = ops
        self._only = next(iter(known), NOBODY) if len(known) <= 1 else None
        self._of: dict[tuple[int, ...], set[int]] = {}
        if self._only is not None:
            return
        columns = dict.fromkeys(("hwId", "vmId", "processId"), 0) | {
            "contextId": -1,
            "streamId": -1,
        }
        for table in ("TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_STREAM"):
            rows = database.integers(table, columns)
            streams = [rows["streamId"]] if table.endswith("STREAM") else []
            self._learn(
                process_key(rows["hwId"], rows["vmId"], rows["processId"]),
                rows["contextId"],
                *streams,
            )
        stated = ops.process != UNKNOWN
        context = ops.columns["context"][stated]
        self._learn(ops.process[stated], context, ops.columns["stream"][stated])

    def fill(self, process: I64, context: I64 | None = None, stream: I64 | None = None) -> I64:
        """The process keys with the unknown ones filled in where only one process is possible."""
        missing = process == UNKNOWN
        if not missing.any():
            return process
        filled = process.copy()
        if self._only is not None:
            filled[missing] = self._only
        elif context is not None and stream is not None:
            pairs, inverse = np.unique(
                np.stack((context[missing], stream[missing])), axis=1, return_inverse=True
            )
            owners = [self._owner(*pair) for pair in pairs.T.tolist()]
            filled[missing] = np.array(owners, np.int64)[inverse.reshape(-1)]
        return filled

    def devices(self, process: I64, context: I64, recorded: I64) -> I64:
        """The device of each row's context as its device work has it, else the one recorded:
        synchronisations of newer exports say device 0 whatever the device of their context is."""
        ops = self._ops.columns
        devices = recorded.copy()
        for owner, lane, device in distinct_rows(
            self.fill(self._ops.process), ops["context"], ops["device"]
        ):
            devices[(process == owner) & (context == lane)] = device
        return devices

    def assign(self, events: ProcessEvents, tally: Tally, what: str) -> ProcessEvents:
        """The events with processes filled in; those of no process are counted and left out."""
        context = events.columns.get("context")
        stream = events.columns.get("stream")
        filled = ProcessEvents(
            self.fill(events.process, context, stream), events.columns, events.thread
        )
        known = filled.process != UNKNOWN
        orphans = int((~known).sum())
        if not orphans:
            return filled
        tally.lost += orphans
        note = (
            f"{orphans} {what} name no process and nothing ties them to one of several; they "
            "are left out"
        )
        tally.notes.append(note)
        return filled.take(known)

    def _owner(self, context: int, stream: int) -> int:
        """The one process that has this stream, else the one that has this context, else
        UNKNOWN."""
        of_both, of_context = (self._of.get(key, set()) for key in ((context, stream), (context,)))
        owners = of_both if len(of_both) == 1 else of_context
        return next(iter(owners)) if len(owners) == 1 else UNKNOWN

    def _learn(self, process: I64, context: I64, *stream: I64) -> None:
        for key, *lane in distinct_rows(process, context, *stream):
            self._of.setdefault(tuple(lane), set()).add(key)
            self._of.setdefault((lane[0],), set()).add(key)
