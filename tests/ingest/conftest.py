from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import recording
from traceanalyzer.base.reading import read_with, reading
from traceanalyzer.ingest.cache import identity


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that keeps models of recordings of any size and age."""
    (tmp_path / "kept").mkdir()
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(identity, "LEAST_BYTES", 0)
    monkeypatch.setattr(identity, "LEAST_PACKED_BYTES", 0)
    monkeypatch.setattr(identity, "SETTLED_S", -1)
    before = reading().cache
    read_with(cache=True)
    yield tmp_path / "kept" / "traceanalyzer"
    read_with(cache=before)


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    return Path(shutil.copy(recording("kineto/gemm_fp32.base"), tmp_path / "trace.json.gz"))
