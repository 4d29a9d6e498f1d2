"""One copy of a step's small tensors instead of one for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analysis.groups.small_copies import which_small
from traceanalyzer.analysis.replay.changes.edits import without_launches

if TYPE_CHECKING:
    from traceanalyzer.analysis.replay.tape import Tape


def copied_together(tape: Tape) -> Tape | None:
    """Of the small copies from the host the first of each step stays; None where no step has two."""
    small = which_small(tape.source)[tape.row]
    step = tape.step_of_op
    rows = np.flatnonzero(small)
    _, first = np.unique(step[rows], return_index=True)
    gone = small.copy()
    gone[rows[first]] = False
    return without_launches(tape, gone) if gone.any() else None
