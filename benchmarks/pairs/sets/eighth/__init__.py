"""Programs of many trades, mostly PyTorch alone: trained, simulated, played and served; and good ones; blind."""

from __future__ import annotations

from benchmarks.pairs.sets.eighth import data, good, loops, services, training

PROGRAMS = (*training.PAIRS, *loops.PAIRS, *data.PAIRS, *services.PAIRS, *good.PROGRAMS)
