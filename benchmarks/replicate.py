"""Make a long Kineto trace by repeating a real one: `python -m benchmarks.replicate SOURCE TARGET
--mb N`.

Every repetition is shifted by the length of the recording, and its correlation ids, External ids,
flow ids, sequence numbers and step numbers continue where the last one ended, so that joins and
steps stay right. The text is otherwise the source's, byte for byte. Streams: memory does not grow
with the source or the target.
"""

import argparse
import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

MB = 1_000_000
SEAM_NS = 1_000_000
"""Between the end of one repetition and the start of the next: an instant the size of a pause
between steps."""

_EVENTS = re.compile(r'\s*"traceEvents": \[')
_HOUSEKEEPING = re.compile(r'"ph": "[Mi]"|"cat": "Trace"')
_TIME = re.compile(r'"ts": (\d+)\.(\d{3})\b')
_DURATION = re.compile(r'"dur": (\d+)\.(\d{3})\b')
_ID = re.compile(r'"(External id|correlation|Sequence number|Ev Idx|id)": (\d+)')
_STEP = re.compile(r"ProfilerStep#(\d+)")


@dataclass(frozen=True)
class Extent:
    """What one repetition takes up: time, ids and step numbers."""

    period_ns: int
    ids: int
    steps: int


def replicate(source: Path, target: Path, copies: int) -> None:
    """Write `copies` repetitions of the source."""
    extent = measure(source)
    with target.open("w", encoding="utf-8", newline="") as out:
        head, tail = _frame(source)
        out.write(head)
        separator = ""
        for copy in range(copies):
            for event in events(source):
                if not _HOUSEKEEPING.search(event):
                    out.write(separator + shifted(event, extent, copy))
                    separator = ",\n"
        for event in events(source):
            if _HOUSEKEEPING.search(event):
                last = "Record Window End" in event
                out.write(separator + shifted(event, extent, copies - 1 if last else 0))
        out.write("\n" + tail)


def measure(source: Path) -> Extent:
    """How far apart repetitions must be. Raises ValueError where the file is not as Kineto writes
    it."""
    start = 1 << 62
    end = 0
    top = 0
    steps = set()
    for event in events(source):
        if _HOUSEKEEPING.search(event):
            continue
        time = _TIME.search(event)
        duration = _DURATION.search(event)
        if time is None:
            raise ValueError(f"{source}: an event without a time of three decimals")
        start = min(start, _ns(time))
        end = max(end, _ns(time) + (_ns(duration) if duration else 0))
        top = max(top, *(int(number) for _, number in _ID.findall(event)), 0)
        steps.update(int(number) for number in _STEP.findall(event))
    if not end:
        raise ValueError(f"{source}: no events in the layout that torch.profiler writes")
    return Extent(end - start + SEAM_NS, top + 1, max(steps) - min(steps) + 1 if steps else 0)


def shifted(event: str, extent: Extent, copy: int) -> str:
    """The event as it is in this repetition; the first one is left alone."""
    if copy == 0:
        return event
    event = _TIME.sub(_moved(extent.period_ns * copy), event)
    event = _ID.sub(_renumbered(extent.ids * copy), event)
    return _STEP.sub(lambda m: f"ProfilerStep#{int(m[1]) + extent.steps * copy}", event)


def _moved(by_ns: int) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        microseconds, rest = divmod(_ns(match) + by_ns, 1000)
        return f'"ts": {microseconds}.{rest:03d}'

    return replace


def _renumbered(by: int) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        # 0 means that there is none.
        return f'"{match[1]}": {int(match[2]) + by if match[2] != "0" else 0}'

    return replace


def _ns(match: re.Match[str]) -> int:
    return int(match[1] + match[2])


def events(source: Path) -> Iterator[str]:
    """The text of each event, without the comma after it."""
    with _open(source) as lines:
        for line in lines:
            if _EVENTS.match(line):
                break
        block: list[str] = []
        for line in lines:
            block.append(line)
            if line.startswith("  }"):
                yield "".join(block).rstrip().rstrip(",")
                block = []


def _frame(source: Path) -> tuple[str, str]:
    """What stands before the first event and after the last."""
    head: list[str] = []
    tail: list[str] = []
    with _open(source) as lines:
        for line in lines:
            head.append(line)
            if _EVENTS.match(line):
                break
        for line in lines:
            tail = [] if line.startswith("  }") else [*tail, line]
    return "".join(head), "".join(tail)


def _open(path: Path) -> TextIO:
    return (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument(
        "--mb", type=float, default=500, help="repeat until the file has at least so many megabytes"
    )
    options = parser.parse_args()
    size = sum(
        len(event) + 2 for event in events(options.source) if not _HOUSEKEEPING.search(event)
    )
    replicate(options.source, options.target, -(-int(options.mb * MB) // size))
    print(f"{options.target}: {options.target.stat().st_size / MB:.0f} MB")


if __name__ == "__main__":
    main()
