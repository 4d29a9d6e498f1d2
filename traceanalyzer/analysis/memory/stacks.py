"""What is allocated at the peak by stack of the program, for a flame graph."""

from collections import Counter
from collections.abc import Sequence

from traceanalyzer.analysis.memory.lives import Allocations
from traceanalyzer.analysis.memory.phases import LIBRARY, allocation_site, frames_of_python, line_of
from traceanalyzer.base import MEMORY, dataclass, metric
from traceanalyzer.trace.snapshot import I64, Stack

MOST_STACKS = 200  # those with the most bytes: a picture has no room for more
NO_FRAMES = "(no stack of the program)"


@dataclass(frozen=True)
class StackAtPeak:
    """A stack of the program, and what it holds at the peak."""

    frames: tuple[str, ...] = metric("lines of the program, the outermost first")
    bytes: int = metric("bytes allocated at the peak", MEMORY)


def stacks_at(lives: Allocations, stacks: Sequence[Stack], alive: I64) -> tuple[StackAtPeak, ...]:
    """The stacks of what is alive, the one with the most bytes first."""
    of_stack = Counter[int]()
    for stack, size in zip(lives.stack[alive].tolist(), lives.size[alive].tolist(), strict=True):
        of_stack[stack] += size
    held = Counter[tuple[str, ...]]()
    for stack, size in of_stack.items():
        held[_frames(stacks[stack])] += size
    largest = held.most_common(MOST_STACKS)
    return tuple(StackAtPeak(frames, size) for frames, size in largest)


def _frames(stack: Stack) -> tuple[str, ...]:
    own = [frame for frame in frames_of_python(stack) if not LIBRARY.search(frame.file)]
    lines = tuple(line_of(frame.file, frame.line, frame.name) for frame in reversed(own))
    return lines or (allocation_site(stack) or NO_FRAMES,)
