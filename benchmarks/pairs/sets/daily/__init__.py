"""Programs of the daily work of research groups and companies, of PyTorch alone; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.daily import loading, services, training

PROGRAMS = (*training.PAIRS, *loading.PAIRS, *services.PAIRS)
