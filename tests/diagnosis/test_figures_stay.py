"""Every figure of the reports on the repository's recordings, against `figures/`: none changes
unnoticed.

After a change that is meant to move figures: `UPDATE_SNAPSHOTS=1 python -m pytest tests/diagnosis`,
then read what `git diff` says. Whether a figure is right is for other tests; this one says which
figures moved.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.analyzed import loaded, reported
from tests.recorded import EVERY, GPU, ROOT, label
from traceanalyzer.ingest.memory import read_snapshot
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.report.compile.build import compile_report
from traceanalyzer.report.json import as_plain
from traceanalyzer.report.memory.build import memory_report
from traceanalyzer.report.memory.model import as_document

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).with_name("figures")
DATA = ROOT / "tests" / "data"
SAMPLES = sorted(
    path for path in (ROOT / "sample_traces").iterdir() if path.is_dir() and path.name[0] != "_"
)
ROWS = 2
"""Of each table: the others are made alike."""
DIGITS = 7
LEFT_OUT = ("tool", "inputs", "conditions", "definitions", "limits", "notes")
NEAR = 1e-5


def _recordings() -> dict[str, list[Path]]:
    """Each recording of the repository under the name of its program; the ranks of a run
    together."""
    found: dict[str, list[Path]] = {f"sample.{path.name}": [path] for path in SAMPLES}
    for path in EVERY:
        found.setdefault(label(path).replace("/", ".").partition(".rank")[0], []).append(path)
    return found | {f"gpu.{path.name.partition('.')[0]}": [path] for path in GPU}


def _figures(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Figures and short texts, each under where it stands."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in LEFT_OUT:
                yield from _figures(one, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}.count", len(value)
        for i, one in enumerate(value[:ROWS]):
            yield from _figures(one, f"{path}.{i}")
    elif isinstance(value, float):
        yield path, float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    elif value is not None and not (isinstance(value, str) and ("/" in value or len(value) > 60)):
        yield path, value


def _check(name: str, document: Any) -> None:
    found = dict(_figures(document))
    file = FOLDER / f"{name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    kept = json.loads(file.read_text(encoding="utf-8"))
    moved = [
        f"{key}: {kept.get(key, 'not there')} before, {found.get(key, 'not there')} now"
        for key in {**kept, **found}
        if not _same(kept.get(key, "not there"), found.get(key, "not there"))
    ]
    assert moved == []


def _same(kept: Any, found: Any) -> bool:
    if isinstance(kept, int | float) and isinstance(found, int | float):
        return math.isclose(kept, found, rel_tol=NEAR, abs_tol=NEAR)
    return bool(kept == found)


@pytest.mark.parametrize(("name", "paths"), list(_recordings().items()), ids=list(_recordings()))
def test_of_a_recording(name: str, paths: list[Path]) -> None:
    _check(name, as_plain(reported(*paths)))


@pytest.mark.parametrize(
    "path", sorted((DATA / "memory").glob("*.pickle.gz")), ids=lambda path: path.name
)
def test_of_a_memory_snapshot(path: Path) -> None:
    _check(
        f"memory.{path.name.partition('.snapshot')[0]}",
        as_plain(as_document(memory_report(read_snapshot(path)))),
    )


@pytest.mark.parametrize(
    "path", sorted((DATA / "compile").glob("*.log.gz")), ids=lambda path: path.name
)
def test_of_a_compile_log(path: Path) -> None:
    trace = path.with_name(path.name.replace(".log.gz", ".trace.json.gz"))
    run = loaded(trace) if trace.exists() else None
    report = compile_report(read_logs(path), run)
    _check(f"compile.{path.name.partition('.')[0]}", as_plain([report.compiled, report.diagnosis]))
