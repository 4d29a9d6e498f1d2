"""Programs with problems that their users report, and some that are good already; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.found import good, good_pictures, loops, pictures, training

PROGRAMS = (*pictures.PAIRS, *training.PAIRS, *loops.PAIRS, *good.PROGRAMS, *good_pictures.PROGRAMS)
