"""XPlanes by hand, for tests: planes of lines of events, in the order in which XLA writes their
fields."""

from dataclasses import dataclass, field

from tests.protobuf import message

Event = tuple[str, int, int, dict[str, int | str]]
"""Name, start and length in ps from the line's time, and stats; text is written as a reference."""


@dataclass
class Plane:
    """One plane; ids of names are handed out as they are met."""

    name: str
    stats: dict[str, int | str] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stat_names: dict[str, int] = field(default_factory=dict)

    def stat(self, name: str, value: int | str) -> bytes:
        number = self.stat_names.setdefault(name, len(self.stat_names) + 1)
        if isinstance(value, int):
            return message((1, number), (4, value))
        return message(
            (1, number), (7, self.stat_names.setdefault(value, len(self.stat_names) + 1))
        )

    def line(self, id_: int, name: str, events: list[Event], start_ns: int = 0) -> "Plane":
        """Add a line."""
        rows = [
            message(
                (1, self.names.setdefault(title, len(self.names) + 1)),
                (2, start),
                (3, length),
                *((4, self.stat(key, value)) for key, value in stats.items()),
            )
            for title, start, length, stats in events
        ]
        self.lines.append(message((1, id_), (2, name), (3, start_ns), *((4, row) for row in rows)))
        return self

    def __bytes__(self) -> bytes:
        stats = [self.stat(name, value) for name, value in self.stats.items()]
        return message(
            (2, self.name),
            *((3, line) for line in self.lines),
            *((4, _entry(number, name)) for name, number in self.names.items()),
            *((5, _entry(number, name)) for name, number in self.stat_names.items()),
            *((6, stat) for stat in stats),
        )


def _entry(number: int, name: str) -> bytes:
    return message((1, number), (2, message((1, number), (2, name))))


def space(*planes: Plane, host: str = "node1", warnings: tuple[str, ...] = ()) -> bytes:
    """A file."""
    return message(
        *((1, bytes(plane)) for plane in planes), *((3, text) for text in warnings), (4, host)
    )
