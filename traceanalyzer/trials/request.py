"""What one run of the program is to do, as one value that travels through an environment variable
to every process of the command."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from traceanalyzer.base import dataclass

VARIABLE = "TRACEANALYZER_TRY"  # environment variable that carries the request
SEED = 20240229  # any number, as long as it is the same in all runs
CHECKED_STEPS = 10
"""Steps whose results are looked at closely, and which are left out of the time: a program compiles
and fills its caches in them."""
COMPARED_STEPS = 60
"""Results of later steps are not compared: what differs in its last digit only is another value by
then in a program that is sensitive, such as one that trains two networks against each other."""
TIMED_STEPS = 20  # enough for a median within 1 % where single steps vary by 4 %
MOST_STEPS = 2000  # timed where that takes less than the seconds below
LEAST_SECONDS = (
    2.0  # of timed steps: slow ones that come now and then, as a new epoch's, are among them
)
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class Request:
    """Options of one run."""

    folder: str
    switches: tuple[str, ...] = ()  # ids, in the order in which they are put on
    # by id the function that puts it on: of `trials.apply`, or `module:name`
    functions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of switches, by id
    seed: int = SEED
    checked_steps: int = CHECKED_STEPS
    timed_steps: int = TIMED_STEPS
    # more steps are timed until the median is known, at least so long, at most so many and so long
    most_steps: int = MOST_STEPS
    least_seconds: float = LEAST_SECONDS
    most_seconds: float = MOST_SECONDS
    step_on: str | None = None
    # by what share of themselves weights are moved before the first step, at random
    nudge: float = 0.0
    # the model draws other random numbers than it would: those of another seed
    redrawn: bool = False
    # compiled code draws the random numbers that it would draw uncompiled
    as_eager: bool = False

    @property
    def path(self) -> Path:
        """Where the run's results go."""
        return Path(self.folder)

    def to_text(self) -> str:
        """The value of `VARIABLE`."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_environment(cls) -> Self | None:
        """The request that this process was started with, None without one."""
        text = os.environ.get(VARIABLE)
        if not text:
            return None
        values = json.loads(text)
        return cls(**values | {"switches": tuple(values["switches"])})
