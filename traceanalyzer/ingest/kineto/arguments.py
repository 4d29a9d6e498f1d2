"""What Kineto writes in the arguments of events. Each distinct text is looked at once; what has
another form than expected counts as not recorded."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw, Struct
from numpy.typing import NDArray

from traceanalyzer.base import regex
from traceanalyzer.ingest.columns import StringCodes
from traceanalyzer.ingest.kineto.events import Args, CounterSample
from traceanalyzer.trace import OccupancyLimit
from traceanalyzer.trace.events import GraphAnnotation

COLUMNS = ("shapes", "dtypes", "strides", "concrete")
MOST_KINDS = 1 << 14
"""Where there are more kinds of calls than any program has, values differ from call to call, and
nothing repeats."""


class Operands:
    """The four texts of each call, looked up as one: steps repeat, and a call of a kind that was
    met before takes a third of the time of four texts."""

    def __init__(self, texts: StringCodes) -> None:
        self._texts = texts
        self._kinds: (
            dict[bytes, int] | None
        ) = {}  # the number of each kind of call; None where they do not repeat
        self._codes: NDArray[np.int32] = np.empty(
            (len(COLUMNS), 0), np.int32
        )  # of the texts of each kind

    def codes(self, args: list[Args]) -> dict[str, Any]:
        """The code of each text of these calls, by column; -1 for empty text."""
        if self._kinds is None:
            return self._one_by_one(args)
        # no JSON has a NUL
        keys = [
            b"\0".join((a.shapes or a.old_shapes, a.dtypes, a.strides, a.concrete)) for a in args
        ]
        try:
            kinds = list(map(self._kinds.__getitem__, keys))
        except KeyError:
            if len(self._kinds) > MOST_KINDS:
                self._kinds = None
                return self._one_by_one(args)
            new = {key: a for key, a in zip(keys, args, strict=True) if key not in self._kinds}
            by_column = self._one_by_one(list(new.values()))
            codes = np.array(list(by_column.values()), np.int32)
            self._codes = np.concatenate((self._codes, codes), axis=1)
            self._kinds |= {key: number for number, key in enumerate(new, len(self._kinds))}
            kinds = list(map(self._kinds.__getitem__, keys))
        return dict(zip(COLUMNS, self._codes[:, kinds], strict=True))

    def _one_by_one(self, args: list[Args]) -> dict[str, list[int]]:
        shapes = [a.shapes or a.old_shapes for a in args]
        others = ([getattr(a, name) for a in args] for name in COLUMNS[1:])
        return dict(zip(COLUMNS, map(self._texts.raw_codes, (shapes, *others)), strict=True))


_FACTORS = {
    "WARPS": OccupancyLimit.WARPS,
    "REGS": OccupancyLimit.REGISTERS,
    "SMEM": OccupancyLimit.SHARED_MEMORY,
    "BLOCKS": OccupancyLimit.BLOCKS,
    "BARRIERS": OccupancyLimit.BARRIERS,
}
"""Kineto's names, joined by `|` where several resources reach their limit at once."""
_MOST_BLOCKS = 1024  # no SM holds as many
_MOST_DISTINCT = 100_000
"""Of more, damage is to be feared rather than kernels: the rest is not kept."""
_LONGEST_OPTIONS = 200
_NUMBER = regex(rb"\d{1,4}")


class _Limits(Struct, gc=False):
    blocks: int = msgspec.field(default=-1, name="activeBlocksPerMultiprocessor")
    factors: str = msgspec.field(default="", name="limitingFactors")


_DECODER = msgspec.json.Decoder(_Limits)


class Occupancy(NamedTuple):
    """Blocks that an SM holds at a time (-1 unknown) and what keeps more from it (0 unknown)."""

    blocks: int
    limits: int


class Occupancies(dict[bytes, Occupancy]):
    """Occupancy by its JSON text."""

    def __missing__(self, text: bytes) -> Occupancy:
        try:
            read = _DECODER.decode(text)
        except (msgspec.DecodeError, ValueError):
            read = _Limits()
        factors = set(read.factors.split("|"))
        flags = sum(_FACTORS.get(factor.strip(), 0) for factor in factors)
        blocks = read.blocks if 0 <= read.blocks <= _MOST_BLOCKS else -1
        found = Occupancy(blocks, int(flags))
        if len(self) < _MOST_DISTINCT:
            self[text] = found
        return found


SHORTENED = ", ..."
OF_GROUP = " of "
"""PyTorch writes the first and the last of many ranks (`[0, 1, ..., 63]`): the group's name tells
groups apart."""
CODED = (
    "name",
    "dtype",
    "group",
    "ranks",
    "communicator",
)  # columns of collectives that are codes of strings
_ARGS: msgspec.json.Decoder[dict[str, float]] = msgspec.json.Decoder(dict[str, float])


def launch_options(a: Args) -> str:
    """`XBLOCK=16, 4 warps, 1 stage`; empty where nothing is stated."""
    text = bytes(a.kernel_options).decode("utf-8", "replace").strip('"')
    stated = (
        text.replace(",", ", ")
        if len(text) <= _LONGEST_OPTIONS and text not in ("null", "{}", "[]")
        else ""
    )
    options = (stated, _counted(a.warps, "warp"), _counted(a.stages, "stage"))
    return ", ".join(filter(None, options))


def _counted(raw: Raw, what: str) -> str:
    found = _NUMBER.fullmatch(bytes(raw).strip(b'"'))
    return "" if found is None else f"{int(found[0])} {what}{'' if int(found[0]) == 1 else 's'}"


class Collective(NamedTuple):
    """A row of `trace.Collectives`; -1 for what was not recorded."""

    name: int
    in_elements: int
    out_elements: int
    dtype: int
    group: int
    group_size: int
    ranks: int
    sequence: int
    communicator: int
    peer: int


def collective_of(a: Args, texts: StringCodes) -> Collective:
    """The collective that the arguments of an event describe."""
    described = json_text(bytes(a.group_description))
    name = json_text(bytes(a.group_name))
    group = (
        described if described not in ("", "undefined") else name
    )  # as PyTorch writes where nobody described it
    ranks = json_text(bytes(a.ranks))
    if SHORTENED in ranks:
        ranks += OF_GROUP + name
    communicator = bytes(a.communicator).decode("utf-8", "replace").strip('"')
    return Collective(
        texts.code(a.collective),
        a.in_elements,
        a.out_elements,
        texts.code(a.dtype) if a.dtype else -1,
        texts.code(group) if group else -1,
        a.group_size,
        texts.code(ranks) if ranks else -1,
        _number(bytes(a.sequence_of_collective)),
        texts.code(communicator) if communicator else -1,
        _number(bytes(a.target or a.source)),
    )


def json_text(raw: bytes) -> str:
    """A JSON string's text, any other JSON as it is written."""
    if raw.startswith(b'"'):
        try:
            return str(msgspec.json.decode(raw))
        except (msgspec.DecodeError, ValueError):
            pass
    return raw.decode("utf-8", "replace")


def _number(text: bytes) -> int:
    """A count, written as a number or as text; -1 for anything else."""
    digits = text.strip(b'"')
    return int(digits) if digits.isdigit() and len(digits) < 19 else -1  # fewer digits fit 64 bits


def counter_value(counter: CounterSample[Any]) -> float | None:
    """The one finite value of a hardware counter's `args`, None for anything else: other counters
    are a viewer's."""
    if counter.category != "hardware_counters":
        return None
    try:
        values = list(_ARGS.decode(bytes(counter.args)).values())
    except msgspec.DecodeError:
        return None
    return values[0] if len(values) == 1 and abs(values[0]) < 2.0**62 else None


def annotation(args: Args) -> str:
    """What the program said of a node of a CUDA graph, as JSON of `GraphAnnotation`; empty where it
    said nothing."""
    if args.graph_node <= 0:
        return ""
    found = GraphAnnotation(
        module=json_text(bytes(args.module)),
        name=json_text(bytes(args.region) or bytes(args.annotation)),
        is_backward=bytes(args.autograd_phase) == b'"backward"',
    )
    return msgspec.json.encode(found).decode() if found.module or found.name else ""
