"""Batch and length as they were recorded."""

from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class Dimensions:
    """The recorded batch and sequence length of one pass."""

    batch: int
    # tokens that each sequence of the batch brings to a pass; None where nothing is a sequence
    length: int | None = None
    # what is kept of each sequence from passes before (a decode's cache); the length is then of it
    cached: frozenset[int] = frozenset()
    basis: str = ""
    # rows of layers that are no whole number of samples: what a router, a mask or a capacity leaves
    # of them
    routed: frozenset[int] = frozenset()
    # sizes in proportion to the length: what convolutions leave of it, chunks that it is cut into
    parts: frozenset[int] = frozenset()
    # rows of layers that are the batch times something that each sample has: series, frames, nodes
    folds: frozenset[int] = frozenset()
    # whether the batch counts rows of a matrix, which may be samples, tokens or neither
    rows: bool = False

    @property
    def is_decode(self) -> bool:
        """Whether a pass takes a token and attends to what was kept of those before."""
        return bool(self.cached)

    @property
    def context(self) -> int | None:
        """Tokens that a sequence attends to: its length, or what is kept of it in the mean."""
        if not self.cached:
            return self.length
        return round(sum(self.cached) / len(self.cached))
