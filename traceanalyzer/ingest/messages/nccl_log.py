"""NCCL's log of its own (NCCL_DEBUG=INFO), pasted."""

from collections.abc import Iterator
from pathlib import Path

from traceanalyzer.base import counted
from traceanalyzer.ingest.plain.nccl import has_nccl_lines, nccl_log, nccl_sentence
from traceanalyzer.trace import PastedText
from traceanalyzer.trace.nccl import NcclLog

SOURCE = "nccl_log"
WHAT = "A log of NCCL (NCCL_DEBUG)"
RECORD = (
    "To see what that costs: run nccl-tests on the same ranks (all_reduce_perf -b 8 -e 1G -f 2), and "
    "record a step of every rank with `traceanalyzer collect torch`."
)


def recognise(text: str) -> bool:
    """Whether a text has lines of NCCL's."""
    return has_nccl_lines(text)


def summarise(text: str, path: Path) -> PastedText | None:
    """The job, its ways between ranks, and its warnings."""
    log = nccl_log(text)
    if log is None:
        return None
    version = f", version {log.version}" if log.version else ""
    return PastedText(
        what=f"{WHAT}{version}",
        tells=nccl_sentence(log),
        record=RECORD,
        notes=tuple(_notes(log)),
    )


def _notes(log: NcclLog) -> Iterator[str]:
    if log.settings:
        yield f"Set: {', '.join(f'{name}={value}' for name, value in log.settings.items())}."
    if log.ranks and log.processes < log.ranks:
        yield (
            f"Lines of {log.processes} of {counted(log.ranks, 'rank')} are here: the others may be "
            "connected otherwise."
        )
    if log.nvls is False:
        yield "NVLink SHARP (NVLS), which adds up in the switch, is not available."
