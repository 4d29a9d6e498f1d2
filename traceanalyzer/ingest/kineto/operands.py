"""What operators were given (shapes, types, strides, values) as codes of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.ingest.columns import Texts
    from traceanalyzer.ingest.kineto.events import Args

COLUMNS = ("shapes", "dtypes", "strides", "concrete")
MOST_KEPT = 1 << 12
"""Kinds of calls that are looked up as one: a program seldom has more, and each is as long as its texts."""
_SEPARATOR = b"\0"
"""Is in no JSON."""


class Operands:
    """The four texts of each call, looked up as one: steps repeat, and a call of a kind that was met before takes a
    third of the time of four texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._forget()

    def _forget(self) -> None:
        self._place: dict[bytes, int] = {}
        self._codes = np.empty((len(COLUMNS), 0), np.int32)
        """For each kind of call the codes of its texts."""

    def codes(self, args: list[Args]) -> dict[str, NDArray[np.int32]]:
        """The code of each text of these calls, by column; -1 for empty text."""
        keys = [_SEPARATOR.join((a.shapes or a.old_shapes, a.dtypes, a.strides, a.concrete)) for a in args]
        try:
            places = list(map(self._place.__getitem__, keys))
        except KeyError:
            self._learn(keys, args)
            places = list(map(self._place.__getitem__, keys))
        return dict(zip(COLUMNS, self._codes[:, places], strict=True))

    def _learn(self, keys: list[bytes], args: list[Args]) -> None:
        if len(self._place) > MOST_KEPT:
            self._forget()
        new = {key: a for key, a in zip(keys, args, strict=True) if key not in self._place}
        columns = (
            [a.shapes or a.old_shapes for a in new.values()],
            [a.dtypes for a in new.values()],
            [a.strides for a in new.values()],
            [a.concrete for a in new.values()],
        )
        codes = np.array([self._texts.raw_codes(texts) for texts in columns], np.int32)
        self._place.update(zip(new, range(len(self._place), len(self._place) + len(new)), strict=True))
        self._codes = np.concatenate((self._codes, codes), axis=1)
