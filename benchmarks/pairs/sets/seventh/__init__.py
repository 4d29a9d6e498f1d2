"""Programs around timm, torchvision and transformers, some of PyTorch alone, and good ones; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.seventh import good, loops, services, training

PROGRAMS = (*training.PAIRS, *loops.PAIRS, *services.PAIRS, *good.PROGRAMS)
