"""Programs of well-known libraries."""

from __future__ import annotations

from benchmarks.pairs.sets.first import language, loops, vision

PROGRAMS = (*language.PAIRS, *vision.PAIRS, *loops.PAIRS)
