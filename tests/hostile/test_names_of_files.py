"""Names of files that are not UTF-8, or hold control characters: every command reads and writes them,
and prints neither."""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.test_recordings import small
from tests.recorded import ROOT

HOSTILE = os.fsdecode(b"n\xff\x1b]0;title\x07\x1b[31m")
SUFFIX = os.fsdecode(b"\xff")
RECORDING = "RECORDING"
EXPORT = "EXPORT"
RANKS = "RANKS"
DUMPS = "DUMPS"
OUT = "OUT"
SEQUENCES = (
    (("analyze", RECORDING),),
    (("analyze", RECORDING, "--format", "json"),),
    (("analyze", RECORDING, "-o", OUT + ".html"),),
    (("analyze", EXPORT, "--redact"),),
    (("compare", RECORDING, RECORDING),),
    (("hang", DUMPS, "--format", "markdown"),),
    (("export", RECORDING, "-o", OUT + ".sqlite"),),
    (("export", EXPORT, "-o", OUT + ".parquet"),),
    (("overlay", RECORDING, "-o", OUT + ".json"),),
    (("digest", RANKS, "-o", OUT), ("fleet", OUT), ("fleet", OUT, "--format", "json")),
    (
        ("analyze", RECORDING, "--store", OUT + ".db"),
        ("history", OUT + ".db"),
        ("compare", OUT + ".db#1", RECORDING),
        ("check", RECORDING, "--baseline", OUT + ".db#1", "--max", "step_time_ms.mean=+50%"),
    ),
)
REFUSED = (
    ("analyze", OUT),
    ("memory", RECORDING),
    ("hang", RECORDING),
    ("analyze", RECORDING, "-o", OUT + ".unknown"),
    ("export", RECORDING, "-o", OUT + ".unknown"),
    ("history", RECORDING),
)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("names") / HOSTILE
    folder.mkdir()
    trace = small()
    trace.op("aten::mm", 1000, 10)
    recording = folder / f"trace{SUFFIX}.json.gz"
    trace.write(recording)
    export = folder / f"run{SUFFIX}.sqlite"
    packed = ROOT / "sample_traces" / "nsys_sync_bound" / "nsys.sqlite.gz"
    export.write_bytes(gzip.decompress(packed.read_bytes()))
    ranks = folder / f"ranks{SUFFIX}"
    shutil.copytree(ROOT / "sample_traces" / "straggler", ranks)
    dumps = folder / f"dumps{SUFFIX}"
    shutil.copytree(ROOT / "tests" / "data" / "hang", dumps)
    return {RECORDING: recording, EXPORT: export, RANKS: ranks, DUMPS: dumps}


def _run(given: dict[str, Path], out: Path, words: tuple[str, ...]) -> tuple[int, bytes, bytes]:
    real = [
        str(given[word]) if word in given else word.replace(OUT, str(out)) if OUT in word else word
        for word in words
    ]
    done = subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *real], cwd=ROOT, capture_output=True
    )
    return done.returncode, done.stdout, done.stderr


def _ugly(text: bytes) -> list[int]:
    """Control characters in a text. Raises UnicodeDecodeError where it is not UTF-8."""
    return [ord(letter) for letter in text.decode() if ord(letter) < 32 and letter not in "\n\t"]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda one: " ".join(one[0]))
def test_such_a_name_is_as_good_as_another(given, tmp_path, sequence):
    for words in sequence:
        status, out, said = _run(given, tmp_path / HOSTILE, words)
        assert status == 0, said
        assert _ugly(out) == _ugly(said) == []


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_refused_is_refused_in_one_line(given, tmp_path, words):
    status, _, said = _run(given, tmp_path / HOSTILE, words)
    assert status in (1, 2)
    assert b"Traceback" not in said
    assert said.startswith(b"traceanalyzer: error: ")
    assert _ugly(said) == []


def test_cells_that_a_spreadsheet_would_run_begin_with_an_apostrophe(tmp_path):
    trace = small()
    for number, sign in enumerate("=+-@"):
        trace.op(f"{sign}cmd|'/c calc'!A0", 1000 + 20 * number, 10)
    trace.write(tmp_path / "trace.json.gz")
    status, out, _ = _run({}, tmp_path, ("ops", str(tmp_path / "trace.json.gz"), "--format", "csv"))
    assert status == 0
    cells = [
        cell for row in csv.reader(out.decode().splitlines()) for cell in row if "calc" in cell
    ]
    assert sorted(cell[:2] for cell in cells) == ["'+", "'-", "'=", "'@"]
