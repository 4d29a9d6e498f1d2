"""What is asked about: the settings of a run that was never made."""

from traceanalyzer.base import TraceAnalyzerError, dataclass, regex

FORMATS = ("bf16", "fp32", "tf32")
"""Number formats that can be asked for."""
MOST = 1_000_000
"""No batch, length or number of ranks is larger."""
LEAST_TIMES = 1e-3
MOST_TIMES = 1e3
"""What is further from the recorded size is no question about this recording."""
_AMOUNT = regex(r"(?P<times>\d{1,18}(\.\d{1,18})?)x|(?P<count>\d{1,18})")


class QuestionError(TraceAnalyzerError):
    """What was asked cannot be answered from this recording; the message says why."""


@dataclass(frozen=True)
class Amount:
    """A size: so many times the recorded one, or so many. One of the two is set."""

    times: float | None = None
    count: int | None = None

    @classmethod
    def of(cls, text: str) -> "Amount":
        """The size that `2x` or `64` says. Raises ValueError for anything else."""
        found = _AMOUNT.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is neither a factor like 2x nor a number like 64")
        if found["times"] is not None:
            times = float(found["times"])
            if not LEAST_TIMES <= times <= MOST_TIMES:
                raise ValueError(f"{text!r} is not between {LEAST_TIMES:g}x and {MOST_TIMES:g}x")
            return cls(times=times)
        count = int(found["count"])
        if not 0 < count <= MOST:
            raise ValueError(f"{text!r} is not between 1 and {MOST}")
        return cls(count=count)

    def from_size(self, now: int) -> int:
        """The size that it leads to, at least 1."""
        return self.count if self.count is not None else max(round(now * (self.times or 1.0)), 1)

    def __str__(self) -> str:
        return f"{self.times:g}x" if self.times is not None else str(self.count)


@dataclass(frozen=True)
class Question:
    """Settings of a run; what is None stays as recorded."""

    batch: Amount | None = None
    length: Amount | None = None
    precision: str | None = None
    gpu: str | None = None
    ranks: int | None = None
    batch_now: int | None = None
    """The recorded batch, where the shapes do not tell it."""

    @property
    def changes_shapes(self) -> bool:
        """Whether it asks for another batch or length."""
        return self.batch is not None or self.length is not None

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing but the step as it is."""
        asked = (self.batch, self.length, self.precision, self.gpu, self.ranks)
        return all(one is None for one in asked)

    def __str__(self) -> str:
        named = {
            "batch": self.batch,
            "length": self.length,
            "precision": self.precision,
            "gpu": self.gpu,
            "ranks": self.ranks,
        }
        parts = [f"{name} {value}" for name, value in named.items() if value is not None]
        return ", ".join(parts) or "as recorded"


def question_of(
    *,
    batch: str | None = None,
    length: str | None = None,
    precision: str | None = None,
    gpu: str | None = None,
    ranks: int | None = None,
    batch_now: int | None = None,
) -> Question:
    """The question that these texts ask. Raises ValueError where one of them makes no sense."""
    if precision is not None and precision not in FORMATS:
        raise ValueError(f"{precision!r} is none of {', '.join(FORMATS)}")
    if ranks is not None and not 0 < ranks <= MOST:
        raise ValueError(f"{ranks} ranks are not between 1 and {MOST}")
    return Question(
        batch=None if batch is None else Amount.of(batch),
        length=None if length is None else Amount.of(length),
        precision=precision,
        gpu=gpu,
        ranks=ranks,
        batch_now=batch_now,
    )
