"""What PyTorch's watchdog of NCCL prints when a collective timed out."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from traceanalyzer.base import MS_PER_S, counted, dataclass, digits, regex
from traceanalyzer.trace import PastedText

_TIMEOUT = regex(
    r"Rank (\d{1,9})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), "
    r"OpType=(\w{1,40})[^\n]{0,300}?\) ran for (\d{1,15}) milliseconds"
)
_WORK = regex(
    r"Rank (\d{1,9})\][^\n]{0,300}?last enqueued(?: NCCL)? work: (-?\d{1,18}), "
    r"last completed(?: NCCL)? work: (-?\d{1,18})"
)
MOST_RANKS = 8  # that are named
RECORD = (
    "To see who did what: run with TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before "
    "PyTorch 2.9) and TORCH_NCCL_DUMP_ON_TIMEOUT=1, then `traceanalyzer analyze FOLDER` on the dumps of "
    "all ranks."
)


@dataclass(frozen=True)
class _Waiting:
    """The first collective that timed out on a rank."""

    number: int
    kind: str
    seconds: float


def recognise(text: str) -> bool:
    """Whether a text has such a message."""
    return _TIMEOUT.search(text) is not None


def summarise(text: str, path: Path) -> PastedText | None:
    """Which ranks waited in which collective, and which of them enqueued least."""
    waiting: dict[int, _Waiting] = {}
    for rank, number, kind, ms in _TIMEOUT.findall(text):
        collective = _Waiting(int(number), kind.lower(), int(ms) / MS_PER_S)
        waiting.setdefault(int(rank), collective)
    if not waiting:
        return None
    longest = max(found.seconds for found in waiting.values())
    ranks: dict[tuple[int, str], list[int]] = defaultdict(list)
    for rank, found in sorted(waiting.items()):
        ranks[found.number, found.kind].append(rank)
    numbers: dict[int, list[int]] = defaultdict(list)
    for rank, found in sorted(waiting.items()):
        numbers[found.number].append(rank)
    places = "; ".join(
        f"{_named(of)} in {kind} #{number:,}" for (number, kind), of in sorted(ranks.items())
    )
    return PastedText(
        what="A collective timed out (PyTorch's watchdog)",
        tells=f"After {digits(longest)} s {counted(len(waiting), 'rank')} gave up: {places}.",
        record=RECORD,
        notes=tuple(_notes(text, len(ranks), numbers)),
    )


def _notes(text: str, collectives: int, numbers: Mapping[int, list[int]]) -> list[str]:
    """`numbers`: the ranks that wait at each number of a collective."""
    notes = []
    if len(numbers) > 1:
        least, most = min(numbers), max(numbers)
        notes.append(
            f"They do not wait in the same collective: if all are of one process group, {_named(numbers[least])} is "
            f"behind, at #{least:,} while others are at #{most:,}; else they wait in different groups."
        )
    elif collectives > 1:
        notes.append(
            "They do not wait in the same collective: ranks took different ways through the program."
        )
    ranks = {rank for of in numbers.values() for rank in of}
    silent = sorted(set(range(max(ranks))) - ranks)
    notes.append(
        f"{_named(silent).capitalize()} said nothing: one that never came, or whose log is not here."
        if silent
        else "Ranks that do not stand here did not wait: one of them may be the one that never came."
    )
    enqueued = {int(rank): int(last) for rank, last, _ in _WORK.findall(text)}
    least = min(enqueued.values(), default=0)
    behind = sorted(rank for rank, last in enqueued.items() if last == least)
    if len(behind) < len(enqueued):
        most = max(enqueued.values())
        notes.append(
            f"{_named(behind).capitalize()} enqueued {least:,} collectives, others {most:,}: it is behind."
        )
    return notes


def _named(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:MOST_RANKS]))
    more = f" and {len(ranks) - MOST_RANKS} more" if len(ranks) > MOST_RANKS else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
