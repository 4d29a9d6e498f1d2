"""Which part of a run a question is about."""

from dataclasses import fields

from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class Selection:
    """A part of a run: one rank, one device (CUDA ordinal), one step (its index); None is all of
    them."""

    rank: int | None = None
    device: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return " ".join(f"--{name} {at}" for name, at in values.items() if at is not None)
