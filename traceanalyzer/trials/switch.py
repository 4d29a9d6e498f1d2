"""A switch: a change of the program that can be put on from outside, and what is known of the
program that it would change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from traceanalyzer.base import dataclass
from traceanalyzer.diagnosis.finding import BottleneckClass


class Numerics(StrEnum):
    """How far a switch may move the results; `same.py` has the figures."""

    EXACT = "exact"  # the same operations on the same data
    ORDER = "order"  # sums in another order, other kernels of the same precision
    TF32 = "tf32"
    HALF = "half"  # bf16 or fp16
    DRAWN = "drawn"  # random numbers are drawn in another order: as far as other seeds move them


@dataclass(frozen=True)
class ProgramFacts:
    """What the base runs told of the program."""

    gpu: bool = False
    ranks: int = 1
    cpus: int = 1
    loaders: list[dict[str, Any]] = field(default_factory=list)
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    models: list[dict[str, Any]] = field(default_factory=list)  # name, dtype, convolutions, ...
    places: dict[str, str] = field(default_factory=dict)  # by what is made there: file and line
    libraries: dict[str, str] = field(default_factory=dict)  # by place, whose loop runs that
    settings: dict[str, Any] = field(default_factory=dict)  # of PyTorch, by name
    variables: dict[str, str] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)  # of functions that cost, by name
    backwards_per_step: float = 0.0
    loading: dict[str, float] = field(default_factory=dict)  # of `LoadingClock.measured`
    compiled: bool = False
    draws: bool = False  # whether its models draw random numbers
    operators: frozenset[str] = frozenset()  # that the recording has
    remedies: frozenset[str] = frozenset()  # that its report advises

    @property
    def rounds_as(self) -> Numerics:
        """How far sums in another order may move the results: as far as the format rounds that the
        program computes in."""
        halves = {"bfloat16", "float16"}
        in_half = self.settings.get("autocast") or any(
            model.get("dtype") in halves for model in self.models
        )
        if in_half:
            return Numerics.HALF
        products = self.settings.get("float32_matmul_precision", "highest") != "highest"
        convolutions = self.settings.get("cudnn_allow_tf32", False) and any(
            model.get("convolutions") for model in self.models
        )
        in_tf32 = self.gpu and (products or convolutions)
        return Numerics.TF32 if in_tf32 else Numerics.ORDER


Need = Callable[[ProgramFacts], str | None]
"""Why a switch changes nothing in such a program, or cannot be put on; None where it can."""


@dataclass(frozen=True)
class Switch:
    """One row of the table. `apply` names a function of `trials.apply`, or is empty where
    `environment` is all."""

    id: str
    title: str
    remedies: tuple[str, ...]  # of the report, by id: their prediction is its promise
    need: Need
    write: str  # what to write into the program
    place: str  # what of the program it is written at: a key of `Facts.places`, or `start`, `shell`
    could_break: str
    # classes of bottleneck that it is against, where the report promises nothing of it
    against: tuple[BottleneckClass, ...] = ()
    telling: bool = False  # whether what it needs is a cost in itself, seen without a recording
    of_model: bool = False  # whether it reaches no further than forward and backward
    apply: str = ""
    value: Callable[[ProgramFacts], Any] = lambda facts: True
    # other values to try beside one that was faster, larger ones first
    other_values: Callable[[ProgramFacts, int], Sequence[int]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    numerics: Numerics = Numerics.EXACT
    draws: bool = False  # whether dropout may fall on other values with it
    compiles: bool = False  # whether it draws as uncompiled code where it is told to
    excludes: tuple[str, ...] = ()  # switches that it cannot be put on with
    extra_seconds: float = 0.0  # that a first step may take longer
