"""What kind of work a kernel does, from its name, by the rules of `kernel_classes.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import I32, Trace


@dataclass(frozen=True)
class KernelClasses:
    """An ordered list of classes. Index 0 is `other`; copies and memsets have classes of their own."""

    names: tuple[str, ...]
    is_communication: tuple[bool, ...]
    bound: tuple[str, ...]
    """`compute` or `memory`: what usually limits a kernel of the class, used until a roofline says better."""

    @classmethod
    def load(cls, extra: Path | None = None) -> KernelClasses:
        """The built-in rules, preceded by those of a user's file."""
        raise NotImplementedError

    def classify(self, trace: Trace) -> I32:
        """The class index of each device op; each distinct kernel name is looked at once."""
        raise NotImplementedError
