"""Programs as they are often written, and some that are good already; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.everyday import good, loops, services, training

PROGRAMS = (*training.PAIRS, *good.PROGRAMS, *services.PAIRS, *loops.PAIRS)
