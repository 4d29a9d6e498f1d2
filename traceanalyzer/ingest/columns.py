"""Growing columns: rows arrive in chunks and are packed at once, so that no Python object outlives
its chunk."""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from traceanalyzer.base.limits import limits
from traceanalyzer.base.parallel import parallel_map
from traceanalyzer.trace import (
    I64,
    constant_column,
    distinct_places,
    is_constant,
    order_of,
    reordered,
)

Recoded = NDArray[np.integer[Any]] | None  # new codes by old ones; None: they stay
Key = TypeVar("Key")
_SAMPLES = 16  # most columns are seen not to be of one value from so many


class Columns:
    """Columns of equal length. `layout`: the `struct` format of each (`B`, `h`, `i`, `l` or `q`) by
    name."""

    def __init__(self, layout: Mapping[str, str]) -> None:
        self._layout = dict(layout)
        self._buffers = {name: bytearray() for name in layout}
        self._whole: dict[str, list[tuple[NDArray[Any], Recoded]]] = {name: [] for name in layout}
        """What comes before the buffers, handed over as it is, and what its values become."""
        self.mended = 0  # values that did not fit their column and became "unknown"

    def append(self, values: Mapping[str, Sequence[int] | NDArray[Any]]) -> None:
        """Add rows: for every column a list of ints, or an array of the column's own dtype."""
        for name, code in self._layout.items():
            column = values[name]
            if isinstance(column, np.ndarray):
                self._buffers[name] += np.ascontiguousarray(column, code).data
            else:
                self._buffers[name] += self._packed(column, code)

    def _packed(self, column: Sequence[int], code: str) -> bytes:
        """The column's bytes; values that do not fit are unknown."""
        try:
            return struct.pack(f"{len(column)}{code}", *column)
        except struct.error:
            limits = np.iinfo(code)
            fits = [isinstance(v, int) and limits.min <= v <= limits.max for v in column]
            unknown = 0 if code == "B" else -1
            fitting = [v if fit else unknown for v, fit in zip(column, fits, strict=True)]
            self.mended += fits.count(False)
            return struct.pack(f"{len(column)}{code}", *fitting)

    def __len__(self) -> int:
        """Rows that were appended."""
        name, code = next(iter(self._layout.items()))
        return len(self._buffers[name]) // struct.calcsize(code)

    def rows(
        self, rows: NDArray[np.integer[Any]], names: Collection[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """The columns of these rows, of those that were appended; more may follow. `names`: only these
        columns, as far as there are such."""
        asked = [name for name in self._layout if names is None or name in names]
        return {name: self._from_buffer(name)[rows] for name in asked}

    def extend(
        self, values: Mapping[str, NDArray[Any]], mended: int, codes: Mapping[str, Recoded]
    ) -> None:
        """Add what other columns of this layout hold (in any integer type that does), with what
        they mended; without copying it. `codes`: what the values of some of them become (see
        `recoded`), once they are taken."""
        for name in self._layout:
            if self._buffers[name]:
                self._whole[name].append((self._from_buffer(name), None))
                self._buffers[name] = bytearray()
            if len(values[name]):
                self._whole[name].append((values[name], codes.get(name)))
        self.mended += mended

    def take(self) -> dict[str, NDArray[Any]]:
        """The columns as arrays, those of one value as `constant_column` makes them, nothing of them held
        twice; nothing may be appended afterwards."""
        return {name: self._taken(name) for name in self._layout}

    def take_ordered(self, first: str, then: str) -> dict[str, NDArray[Any]]:
        """The columns as `take` gives them, ordered by `first`, rows that are equal there by `then`. Threads join the
        other columns while one finds the order."""
        columns: dict[str, NDArray[Any]] = {}
        orders: list[I64 | None] = []
        appended = sum(len(values) for values, _ in self._whole[first])
        rows = appended + len(self._from_buffer(first))

        def join(names: Sequence[str]) -> None:
            columns.update({name: self._taken(name) for name in names})
            if first in names:
                orders.append(order_of(columns[first], columns[then]))

        def ordered(name: str) -> NDArray[Any]:
            column = columns.pop(name)
            return column if orders[0] is None else reordered(column, orders[0])

        others = [(name,) for name in self._layout if name not in (first, then)]
        parallel_map(join, [(first, then), *others], rows)
        return dict(zip(self._layout, parallel_map(ordered, self._layout, rows), strict=True))

    def _taken(self, name: str) -> NDArray[Any]:
        parts = [*starmap(recoded, self._whole.pop(name)), self._from_buffer(name)]
        del self._buffers[name]
        return tight(concatenated(parts, np.dtype(self._layout[name])))

    def _from_buffer(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self._buffers[name], self._layout[name])


def tight(values: NDArray[Any]) -> NDArray[Any]:
    """The column, as `constant_column` makes it where it is of one value throughout."""
    if not len(values) or is_constant(values):
        return values
    sample = values[:: len(values) // _SAMPLES + 1]
    if (sample != values[0]).any() or (values != values[0]).any():
        return values
    return constant_column(values[0], len(values), values.dtype)


def concatenated(parts: Sequence[NDArray[Any]], dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
    """One column from one or more, of this type (None: of one that holds all); of one value where
    all parts are."""
    filled = [part for part in parts if len(part)] or parts[:1]
    first = filled[0]
    kind = dtype or np.result_type(*filled)
    if all(is_constant(part) and part[0] == first[0] for part in filled):
        return constant_column(first[0], sum(map(len, filled)), kind)
    return np.concatenate(filled, dtype=kind) if len(filled) > 1 else first.astype(kind, copy=False)


def looked_up(
    keys: I64, values: NDArray[Any], wanted: NDArray[Any], missing: int = -1
) -> NDArray[Any]:
    """For each wanted key its value; `keys` ascend. One that is not among them has the value for
    missing ones."""
    if not len(keys):
        return np.full(len(wanted), missing, values.dtype)
    if (keys[1:] == keys[:-1] + 1).all():  # the place follows from the key
        place = np.clip(wanted, keys[0], keys[-1]) - keys[0]
    else:
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], missing)


def by_value(
    column: NDArray[Any], make: Callable[[int], int], dtype: type[np.generic] = np.int64
) -> NDArray[Any]:
    """What `make` makes of each distinct value of a column of integers, in the places of the
    values."""
    known, place = distinct_places(column)
    return np.array([make(value) for value in known.tolist()], dtype)[place]


def recoded(column: NDArray[Any], codes: Recoded) -> NDArray[Any]:
    """The column in other codes, of which the last is for -1; None: as it is."""
    if codes is None:
        return column
    return (
        constant_column(codes[column[0]], len(column), codes.dtype)
        if is_constant(column)
        else codes.take(column)
    )


class Codes(dict[Key, int], Generic[Key]):
    """Numbers distinct keys in the order in which they are first asked for: `codes[key]`."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code


class _RawCodes(dict[bytes, int]):
    """Codes of undecoded JSON text: bytes are decoded once for each distinct text, and laid out on
    one line with a blank after each comma as recorders write it: what saves a trace again may not,
    and the same shapes must stay so."""

    def __init__(self, codes: Codes[str]) -> None:
        super().__init__({b"": -1})
        self._codes = codes

    def __missing__(self, text: bytes) -> int:
        line = text
        with suppress(msgspec.DecodeError, RecursionError):
            line = msgspec.json.format(text, indent=0)
        code = self[text] = self._codes[line.decode("utf-8", "replace")]
        return code


def copied(texts: Sequence[Raw]) -> list[bytes]:
    """Undecoded JSON text as bytes: all in one, and cut apart, in half the time of one by one."""
    parts = b"\0".join(texts).split(b"\0")
    return parts if len(parts) == len(texts) else list(map(bytes, texts))


class StringCodes:
    """The strings of a trace, with a code for each."""

    def __init__(self) -> None:
        self._codes: Codes[str] = Codes()
        self._raw = _RawCodes(self._codes)

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str) -> int:
        """The code of one string."""
        return self._codes[text]

    def codes(self, texts: Iterable[str]) -> list[int]:
        """The codes of many strings."""
        return list(map(self._codes.__getitem__, texts))

    def raw_codes(self, texts: Sequence[Raw]) -> list[int]:
        """The codes of undecoded JSON text; -1 for empty text."""
        return list(map(self._raw.__getitem__, copied(texts)))

    def in_order(self) -> list[str]:
        """The strings as they were read, each at the index that is its code."""
        return list(self._codes)

    def all(self) -> list[str]:
        """The strings, each at the index that is its code."""
        most = limits().text
        return [text[:most] for text in self._codes]
