"""A fifth set of programs of two ranks: training, inference and a pipeline, of PyTorch alone; written blind."""

from __future__ import annotations

from benchmarks.pairs.sets.ranks_fifth import divided, replicas, sharding

PROGRAMS = (*replicas.PAIRS, *sharding.PAIRS, *divided.PAIRS)
