"""Programs whose mistake a review would find, of PyTorch alone, and some that are good already; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.sixth import good, loops, services, training

PROGRAMS = (*training.PAIRS, *services.PAIRS, *loops.PAIRS, *good.PROGRAMS)
