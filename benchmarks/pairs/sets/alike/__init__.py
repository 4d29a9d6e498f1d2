"""Programs near to those whose recordings are at hand: the same mistakes in other models and other places; blind."""

from __future__ import annotations

from benchmarks.pairs.sets.alike import inputs, loops, training

PROGRAMS = (*training.PAIRS, *loops.PAIRS, *inputs.PAIRS)
