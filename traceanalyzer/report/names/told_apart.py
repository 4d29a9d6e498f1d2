"""Names cut to the width of a column so that different ones still read differently.

What is too long loses its middle. Where two names then read alike, each is shown from where it
differs from the other: `vectorized…<GeluBackwardCUDAKern…` and `vectorized…<GeluCUDAKernelImpl>`."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from traceanalyzer.base import ELLIPSIS

Cut = Callable[[str], str]
HEAD_SHARE = 1 / 3  # of the width, which the beginning of a name keeps
WORD_BEGINS = "<>_:, /("
LONGEST_WORD = 12  # characters before the difference that are shown where a word begins there
LEAST_WIDTH = 12  # in less room nothing but a beginning and an end is readable


def told_apart(cells: Iterable[str], width: int, cut: Cut) -> dict[str, str]:
    """What each of these cells is shown as; `cut` is how one that is too long is shown alone."""
    alike = defaultdict[str, list[str]](list)
    for cell in dict.fromkeys(cells):
        alike[cut(cell)].append(cell)
    shown = {}
    for text, names in alike.items():
        for name in names:
            others = [other for other in names if other != name]
            apart = bool(others) and width >= LEAST_WIDTH
            shown[name] = _from_difference(name, others, width) if apart else text
    return shown


def _from_difference(name: str, others: Iterable[str], width: int) -> str:
    """The beginning of the name, then from where no other is like it, as far as there is room."""
    head = int(width * HEAD_SHARE)
    room = width - head - len(ELLIPSIS)
    differs = max(_alike(name, other) for other in others)
    begin = _word_before(name, differs)
    if len(name) - begin <= room:
        return f"{name[:head]}{ELLIPSIS}{name[len(name) - room :]}"
    if begin <= head:
        return name[: width - len(ELLIPSIS)] + ELLIPSIS
    return f"{name[:head]}{ELLIPSIS}{name[begin : begin + room - len(ELLIPSIS)]}{ELLIPSIS}"


def _alike(name: str, other: str) -> int:
    """How many characters both begin with."""
    length = min(len(name), len(other))
    return next((i for i in range(length) if name[i] != other[i]), length)


def _word_before(name: str, place: int) -> int:
    """Where the word begins that this place is in; the place itself in a long word."""
    for begin in range(place, max(place - LONGEST_WORD, 0), -1):
        if name[begin - 1] in WORD_BEGINS:
            return begin
    return place
