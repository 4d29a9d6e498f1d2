"""Programs of research code, and some that are good already; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.research import good, science, services, tempting, training

PROGRAMS = (*training.PAIRS, *good.PROGRAMS, *services.PAIRS, *science.PAIRS, *tempting.PAIRS)
