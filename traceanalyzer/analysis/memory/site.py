"""The table of the lines whose memory is allocated at the peak."""

from traceanalyzer.base import MEMORY, dataclass, metric


@dataclass(frozen=True)
class Site:
    """A line of the program at the peak."""

    site: str = metric("innermost line of the program on the stack of the allocation")
    category: str = metric("what it is of; inferred")
    phase: str | None = metric("the phase that allocated it; null where no stacks were recorded")
    bytes: int = metric("bytes allocated at the peak", MEMORY)
    allocations: int = metric("how many allocations they are")
