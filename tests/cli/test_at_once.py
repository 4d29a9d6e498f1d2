"""What is answered before words are parsed: the same bytes, and only where nothing has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.recorded import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Ask = Callable[..., tuple[str, list[str]]]

SAMPLE = ROOT / "sample_traces" / "host_bound"
RANKS = ROOT / "sample_traces" / "straggler"
HEAVY = ("click", "msgspec", "numpy", "rich.console")
RUN = f"""
import sys
from traceanalyzer.ingest.cache import identity
identity.SETTLED_S = -1
from traceanalyzer.cli import main
try:
    main()
finally:
    print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs a command in a process of its own, with a cache that they share: what it prints, and
    what it loads of `HEAVY`."""

    def asked(*words: object, **environment: str) -> tuple[str, list[str]]:
        done = subprocess.run(
            [sys.executable, "-c", RUN, *map(str, words)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "TRACEANALYZER_CACHE": str(tmp_path / "kept"), **environment},
        )
        return done.stdout, done.stderr.split()

    return asked


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A recording with the files beside it."""
    folder = tmp_path / "capture"
    shutil.copytree(SAMPLE, folder)
    return folder / "trace.rank0.json.gz"


def test_the_same_words_are_answered_without_parsing_them(ask: Ask, capture: Path) -> None:
    first, loaded = ask("analyze", capture, "--full", COLUMNS="100")
    assert "click" in loaded
    assert ask("analyze", capture, "--full", COLUMNS="100") == (first, [])
    narrow, loaded = ask("analyze", capture, "--full", COLUMNS="70")
    assert "click" in loaded
    assert narrow != first


def test_json_of_an_answer_that_was_looked_at_is_there(ask: Ask, capture: Path) -> None:
    ask("analyze", capture)
    text, loaded = ask("analyze", capture, "--format", "json")
    assert loaded == []
    assert text == ask("analyze", capture, "--format", "json", "--no-cache")[0]


@pytest.mark.parametrize("format_", ["terminal", "markdown", "json", "csv"])
@pytest.mark.parametrize("table", [("gaps",), ("show", "kernels"), ("show", "syncs")], ids=" ".join)
def test_tables_that_a_report_left_are_printed_at_once(
    table: tuple[str, ...], format_: str, ask: Ask, capture: Path
) -> None:
    ask("analyze", capture)
    words = (*table, capture) if format_ == "terminal" else (*table, capture, "--format", format_)
    text, loaded = ask(*words)
    assert loaded == []
    assert text == ask(*words, "--no-cache")[0]


@pytest.mark.parametrize("table", ["gaps", "steps", "syncs", "comm"])
def test_so_are_tables_of_every_rank(table: str, ask: Ask) -> None:
    ask("analyze", RANKS)
    text, loaded = ask("show", table, RANKS)
    assert loaded in ([], ["rich.console"]), "which draws few rows that are wide"
    assert text == ask("show", table, RANKS, "--no-cache")[0]


def test_a_page_of_several_ranks_is_drawn_of_what_their_report_left(
    ask: Ask, tmp_path: Path
) -> None:
    pages = [tmp_path / "left.html", tmp_path / "made.html"]
    ask("analyze", RANKS)
    ask("analyze", RANKS, "-o", pages[0])
    ask("analyze", RANKS, "-o", pages[1], "--no-cache")
    assert pages[0].read_text() == pages[1].read_text()


@pytest.mark.parametrize("words", [("analyze",), ("gaps",)])
def test_what_was_written_anew_is_read_anew(
    words: tuple[str, ...], ask: Ask, capture: Path
) -> None:
    ask("analyze", capture)
    first = ask(*words, capture)[0]
    shutil.copy(ROOT / "sample_traces" / "compute_bound" / "trace.rank0.json.gz", capture)
    again, loaded = ask(*words, capture)
    assert "click" in loaded
    assert again != first


def test_words_mean_the_files_of_the_current_folder(
    ask: Ask, capture: Path, tmp_path: Path
) -> None:
    shutil.copy(capture, tmp_path / "trace.json.gz")
    ask("analyze", "trace.json.gz")
    (tmp_path / "trace.json.gz").unlink()
    with pytest.raises(subprocess.CalledProcessError):
        ask("analyze", "trace.json.gz")


def test_mistakes_are_told_as_ever(ask: Ask, capture: Path) -> None:
    ask("analyze", capture)
    for words in (("gaps",), ("show",), ("show", "nothing", capture), ("gaps", capture, "--no")):
        with pytest.raises(subprocess.CalledProcessError) as error:
            ask(*words)
        assert error.value.returncode == 2


@pytest.mark.parametrize("format_", ["terminal", "json", "csv"])
def test_so_are_predictions(format_: str, ask: Ask, capture: Path) -> None:
    ask("analyze", capture)
    text, loaded = ask("whatif", capture, "--format", format_)
    assert not {"click", "numpy"} & set(loaded)
    assert text == ask("whatif", capture, "--format", format_, "--no-cache")[0]


def test_an_earlier_name_of_a_table_is_answered_where_nobody_is_to_be_told(
    ask: Ask, capture: Path
) -> None:
    ask("analyze", capture)
    text, loaded = ask("kernels", capture)
    assert loaded == []
    assert text == ask("show", "kernels", capture)[0]
