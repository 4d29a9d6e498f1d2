"""What operators were given (shapes, types, strides, values) as codes of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.ingest.columns import Texts
from traceanalyzer.ingest.kineto.events import Args

COLUMNS = ("shapes", "dtypes", "strides", "concrete")
MOST_KINDS = 1 << 14
"""Where there are more kinds of calls than any program has, values differ from call to call, and nothing repeats."""
_SEPARATOR = b"\0"
"""Is in no JSON."""


class Operands:
    """The four texts of each call, looked up as one: steps repeat, and a call of a kind that was met before takes a
    third of the time of four texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._kinds: dict[bytes, int] | None = {}
        """The number of each kind of call; None where they do not repeat."""
        self._codes: NDArray[np.int32] = np.empty((len(COLUMNS), 0), np.int32)
        """The codes of the texts of each kind."""

    def codes(self, args: list[Args]) -> dict[str, Any]:
        """The code of each text of these calls, by column; -1 for empty text."""
        if self._kinds is None:
            return self._one_by_one(args)
        keys = [_SEPARATOR.join((a.shapes or a.old_shapes, a.dtypes, a.strides, a.concrete)) for a in args]
        try:
            kinds = list(map(self._kinds.__getitem__, keys))
        except KeyError:
            if len(self._kinds) > MOST_KINDS:
                self._kinds = None
                return self._one_by_one(args)
            self._learn(self._kinds, dict(zip(keys, args, strict=True)))
            kinds = list(map(self._kinds.__getitem__, keys))
        return dict(zip(COLUMNS, self._codes[:, kinds], strict=True))

    def _learn(self, kinds: dict[bytes, int], met: dict[bytes, Args]) -> None:
        new = {key: a for key, a in met.items() if key not in kinds}
        codes = np.array(list(self._one_by_one(list(new.values())).values()), np.int32)
        kinds.update(zip(new, range(len(kinds), len(kinds) + len(new)), strict=True))
        self._codes = np.concatenate((self._codes, codes), axis=1)

    def _one_by_one(self, args: list[Args]) -> dict[str, list[int]]:
        codes = self._texts.raw_codes
        return {
            "shapes": codes([a.shapes or a.old_shapes for a in args]),
            "dtypes": codes([a.dtypes for a in args]),
            "strides": codes([a.strides for a in args]),
            "concrete": codes([a.concrete for a in args]),
        }
