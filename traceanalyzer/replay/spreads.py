"""How far a prediction may be off by what is changed: each scenario says which of these it is.

A scenario leaves things out in proportion to what it changes. A host without its launches or its Python is known well;
how fast other kernels are is not. The shares were chosen on pairs of programs that were timed with and without a
remedy; `python -m benchmarks.remedy_errors` compares each with the others (docs/accuracy.md).
"""

from __future__ import annotations

GAIN_SPREAD = 0.015
"""Share of what a scenario gains by which its prediction may be off ..."""
OF_KERNELS = 0.2
"""... where kernels become other kernels ..."""
OF_MOVES = 0.1
"""... and where input is loaded or copied in another way, messages between ranks change, or many calls become one."""
