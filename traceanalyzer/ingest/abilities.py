"""What a format of recordings can and cannot tell, and how it is recorded: one value a format, shown by the docs."""

from traceanalyzer.base import dataclass


@dataclass(frozen=True)
class Abilities:
    """In words for a table; Markdown."""

    name: str
    """What the files are."""
    tells: str
    cannot: str
    """What they never hold, so that it is `null` in every report on them."""
    record: str
    """How to make one."""
