"""Perfetto traces as torch writes them, by hand, for tests."""

from dataclasses import dataclass, field

from tests.protobuf import message

CATEGORIES = 1
NAMES = 2
STAGES = 24
COUNTERS = 47
KERNELS = 1000
ARGUMENTS = 1001
BASE_NS = 1_700_000_000_000_000_000
WITH_UNDERSCORES = ("module_fqn",)  # of the names of a row's arguments; others have blanks
STAGE_NAMES = ("Kernel", "Memcpy", "Memset", "Annotation", "EventRecord", "HostNode")


def annotation(name: str, value: object) -> bytes:
    """A DebugAnnotation; a list within is an array."""
    named = ((10, name),) if name else ()
    if isinstance(value, bool):
        return message(*named, (2, int(value)))
    if isinstance(value, int):
        return message(*named, (4, value))
    if isinstance(value, float):
        return message(*named, (5, value))
    if isinstance(value, list):
        return message(*named, *((12, annotation("", one)) for one in value))
    return message(*named, (6, value))


def _written(argument: str) -> str:
    """The name of an argument as torch writes it."""
    return argument if argument in WITH_UNDERSCORES else argument.replace("_", " ")


@dataclass
class Pftrace:
    """Packets in the order of the calls; names come before all events, as torch has it."""

    packets: list[bytes] = field(default_factory=list)
    tables: dict[int, dict[str, int]] = field(default_factory=dict)
    tracks: dict[tuple[int, int], int] = field(default_factory=dict)
    first: list[bytes] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)

    def iid(self, table: int, name: str) -> int:
        known = self.tables.setdefault(table, {})
        return known.setdefault(name, len(known) + 1)

    def track(self, pid: int, tid: int, process: str = "python") -> int:
        if (pid, tid) not in self.tracks:
            number = self.tracks[pid, tid] = 2 * len(self.tracks) + 2
            self.first.append(
                message((60, message((1, number - 1), (3, message((1, pid), (6, process))))))
            )
            thread = message((1, pid), (2, tid), (5, f"thread {tid}"))
            self.first.append(message((60, message((1, number), (5, number - 1), (4, thread)))))
        return self.tracks[pid, tid]

    def host(
        self,
        *slices: tuple[str, str, int, int, dict[str, object]],
        lane: tuple[int, int, str] = (7, 7, "python"),
    ) -> None:
        """A run of slices (category, name, start, end, annotations; ns): all begins, then all
        ends."""
        track = self.track(*lane)
        for category, name, start, _, args in slices:
            carried = ((4, annotation(key, value)) for key, value in args.items())
            kind = ((3, self.iid(CATEGORIES, category)),) if category else ()
            begin = message((9, 1), (11, track), (10, self.iid(NAMES, name)), *kind, *carried)
            self.packets.append(message((8, BASE_NS + start), (10, 1), (13, 2), (11, begin)))
        for _, _, _, end, _ in slices:
            self.packets.append(
                message((8, BASE_NS + end), (10, 1), (13, 2), (11, message((9, 2), (11, track))))
            )

    def stage(
        self,
        kind: int,
        name: str,
        start: int,
        end: int,
        gpu: int = 0,
        waits: tuple[int, ...] = (),
        **extra: object,
    ) -> None:
        """A row of a device; `kind` is the place of its stage, from 1."""
        named = ((20, self.iid(NAMES, name)), (19, self.iid(KERNELS, name))) if name else ()
        launch = message(
            (1, message((1, 4), (2, 2), (3, 1))),
            (2, message((1, 128), (2, 1), (3, 1))),
            (3, message((1, self.iid(ARGUMENTS, "registers_per_thread")), (4, 40))),
        )
        event = message(
            (1, len(self.packets) + 1),
            (2, end - start),
            (11, gpu),
            (14, kind),
            *named,
            *((18, one) for one in waits),
            *(((21, launch),) if kind == 1 else ()),
            *((6, message((1, _written(key)), (2, str(value)))) for key, value in extra.items()),
        )
        self.packets.append(message((8, BASE_NS + start), (10, 1), (13, 2), (53, event)))

    def sample(self, name: str, time: int, value: float) -> None:
        """A sample of a counter of GPU 0."""
        if name not in self.counters:
            self.counters.append(name)
        event = message((4, 1), (2, message((1, self.counters.index(name)), (3, value))))
        self.packets.append(message((8, BASE_NS + time), (10, 1), (13, 2), (52, event)))

    def __bytes__(self) -> bytes:
        for stage in STAGE_NAMES:
            self.iid(STAGES, stage)
        texts = [
            (table, message((1, number), (3 if table == KERNELS else 2, name)))
            for table, names in self.tables.items()
            for name, number in names.items()
        ]
        specs = [(1, message((1, i), (2, name))) for i, name in enumerate(self.counters)]
        described = [(COUNTERS, message((1, 1), (3, 0), (2, message(*specs))))] if specs else []
        clocks = [(1, message((1, clock), (2, BASE_NS))) for clock in (6, 1)]
        head = message((8, BASE_NS), (10, 1), (6, message(*clocks)))
        interned = message((10, 1), (13, 1), (12, message(*texts, *described)))
        return message(*((1, packet) for packet in (head, *self.first, interned, *self.packets)))
