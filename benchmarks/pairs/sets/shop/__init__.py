"""Programs of a company's daily work, of PyTorch alone; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.shop import pictures, services, training

PROGRAMS = (*training.PAIRS, *pictures.PAIRS, *services.PAIRS)
