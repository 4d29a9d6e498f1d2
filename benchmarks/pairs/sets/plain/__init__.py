"""Programs as in many a repository, of PyTorch alone, and some that are good already; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.plain import good, loading, loops, training

PROGRAMS = (*training.PAIRS, *loops.PAIRS, *loading.PAIRS, *good.PROGRAMS)
