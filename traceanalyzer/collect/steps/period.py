"""How many calls of outermost modules make one iteration: guidance calls its model twice, a draft
model is called four times before its target, an actor is followed by a critic.

A call is known by what is called and from where. The calls of an iteration repeat in the same
order."""

from collections import Counter

from traceanalyzer.base import dataclass

REPEATS = 3
"""An iteration must have been seen so many times in a row: set-up calls come once or twice."""
LEAST_CALLS = 8  # calls that a period must hold for: a draft model alone repeats four times
LONGEST = 8  # calls of an iteration; a request of hundreds of tokens is not one
MOST_CALLS = 48  # calls after which no period is expected any more
STRANGE_PERIODS = 3  # iterations that fail in a row, after which another period is looked for


@dataclass(frozen=True)
class CallMark:
    """One call: what is called, from where, and how it is named."""

    callee: int
    site: int
    name: str


class CallPeriod:
    """Call `ended` for each call; it says whether an iteration ends with it."""

    def __init__(self) -> None:
        self._seen: list[CallMark] = []
        self._period: tuple[CallMark, ...] = ()
        self._at = 0
        self._strange = 0

    @property
    def calls(self) -> int:
        """Calls an iteration; 1 until it is known."""
        return max(len(self._period), 1)

    @property
    def names(self) -> list[str]:
        """What an iteration calls, each name once; until that is known, what was called last."""
        return list(dict.fromkeys(call.name for call in self._period or self._seen[-1:]))

    def ended(self, call: CallMark) -> bool:
        """A call has ended. True where an iteration did, and for every call until the period is
        known."""
        if not self._period:
            self._seen.append(call)
            self._settle()
            return True
        if self.calls == 1:
            return call.callee == self._period[0].callee
        return self._follow(call)

    def _follow(self, call: CallMark) -> bool:
        if call == self._period[self._at]:
            self._at += 1
        else:
            self._strange += 1
            self._at = 1 if call == self._period[0] else 0
        if self._at == self.calls:
            self._at = self._strange = 0
            return True
        if self._strange > STRANGE_PERIODS * self.calls:  # the script is in another loop by now
            self._period = ()
            self._seen = []
            self._at = self._strange = 0
        return False

    def _settle(self) -> None:
        for length in range(1, LONGEST + 1):
            window = max(REPEATS * length, LEAST_CALLS)
            if self._repeats(length, len(self._seen) - window):
                first = self._begins(length)
                self._period = tuple(self._seen[first : first + length])
                self._at = (len(self._seen) - first) % length
                return
        if len(self._seen) >= MOST_CALLS:
            self._period = (self._rarest(),)

    def _repeats(self, length: int, first: int) -> bool:
        """Whether the calls from `first` on repeat after `length`."""
        seen = self._seen
        return first >= 0 and all(
            seen[at] == seen[at + length] for at in range(first, len(seen) - length)
        )

    def _begins(self, length: int) -> int:
        """Where the calls begin to repeat: there an iteration begins."""
        first = len(self._seen) - length
        while first > 0 and self._seen[first - 1] == self._seen[first - 1 + length]:
            first -= 1
        return first

    def _rarest(self) -> CallMark:
        """The call that comes once an iteration where others come a changing number of times."""
        counts = Counter((call.callee, call.site) for call in self._seen)
        often = {key: count for key, count in counts.items() if count * LONGEST >= len(self._seen)}
        rarest = min(often, key=often.__getitem__) if often else counts.most_common(1)[0][0]
        return next(call for call in self._seen if (call.callee, call.site) == rarest)
