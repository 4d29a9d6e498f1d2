"""What a command printed is printed again where nothing has changed, and only there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ingest.cache.asked import LEFT, assert_told_again, kept, told
from tests.recorded import ROOT, recording
from traceanalyzer.base.limits import MIB
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli
from traceanalyzer.ingest.cache import identity, pages
from traceanalyzer.ingest.cache.pages import answered_page
from traceanalyzer.ingest.cache.store import write_checked

CAPTURE = ROOT / "sample_traces" / "sync_bound"
COMMANDS = [
    ["analyze"],
    ["analyze", "--full"],
    ["analyze", "--format", "json"],
    ["analyze", "--format", "markdown", "--redact-name", "gemm.*"],
    ["analyze", "--format", "html"],
    ["analyze", "--format", "svg"],
    ["analyze", "-q"],
    ["gaps"],
    ["kernels", "--sort", "calls", "--format", "csv"],
    ["whatif", "--speedup", "gemm=2"],
]

PRINTS_AND_LOOKS = """
import sys
from traceanalyzer.cli import main
from traceanalyzer.ingest.cache import identity
identity.SETTLED_S = -1
try:
    main()
finally:
    print("numpy:", "numpy" in sys.modules)
"""


@pytest.fixture
def only_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models, answers, tables, predictions and reports are not kept: what is in the cache are pages."""
    for left in LEFT:
        monkeypatch.setattr(f"traceanalyzer.report.{left}.answered_page", lambda *_: None)
    monkeypatch.setattr("traceanalyzer.ingest.cache.models.place", lambda: None)


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> object:
        raise AssertionError("it was read, not printed again")

    monkeypatch.setattr("traceanalyzer.ingest.run.load", load)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_print_again_what_they_printed(
    words: list[str], cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_told_again(words, trace_file, lambda: refuse(monkeypatch))


def test_a_snapshot_is_told_of_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ROOT / "tests" / "data" / "memory" / "half_batch.snapshot.pickle.gz"
    file = Path(shutil.copy(source, tmp_path / "memory.pickle.gz"))

    def refused() -> None:
        def read(*_: object) -> object:
            raise AssertionError("it was read, not printed again")

        monkeypatch.setattr("traceanalyzer.ingest.memory.read_snapshot", read)

    assert_told_again(["memory"], file, refused)


def test_two_recordings_are_compared_again(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(
        shutil.copy(recording("kineto/gemm_fp32.fix"), trace_file.with_name("other.json.gz"))
    )
    first = told("compare", trace_file, other)
    refuse(monkeypatch)
    assert told("compare", trace_file, other) == first
    with pytest.raises(AssertionError):
        CliRunner().invoke(cli, ["compare", str(other), str(trace_file)], catch_exceptions=False)


def test_a_capture_is_answered_again_until_anything_in_it_changes(
    cache: Path, only_pages: None, tmp_path: Path
) -> None:
    here = tmp_path / "capture"
    shutil.copytree(CAPTURE, here)
    first = told("analyze", here, "--format", "json")
    assert (told("analyze", here, "--format", "json"), len(kept(cache))) == (first, 1)
    (here / "unprofiled.rank0.json").unlink()
    assert told("analyze", here, "--format", "json") != first
    assert len(kept(cache)) == 2


def test_a_result_in_the_folder_that_is_asked_about_is_replaced(
    cache: Path, only_pages: None, tmp_path: Path
) -> None:
    here = tmp_path / "capture"
    shutil.copytree(CAPTURE, here)
    (old := here / "result.json").write_text("{}")
    told("analyze", here, "-o", tmp_path / "result.json")
    for _ in range(3):
        told("analyze", here, "-o", old)
        assert old.read_text() == (tmp_path / "result.json").read_text()


@pytest.mark.parametrize(
    "name", ["environment.json", "nvml.rank0.jsonl", "light.rank0.json.gz", "memory.rank0.pickle"]
)
def test_what_appears_beside_a_recording_is_seen(
    name: str, cache: Path, only_pages: None, trace_file: Path
) -> None:
    told("gaps", trace_file)
    (trace_file.parent / name).write_bytes(b"{}")
    told("gaps", trace_file)
    assert len(kept(cache)) == 2


def test_other_files_beside_a_recording_do_not_matter(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    told("gaps", trace_file)
    (trace_file.parent / "notes.txt").write_text("later")
    told("gaps", trace_file, "-o", trace_file.parent / "gaps.txt")
    told("gaps", trace_file)
    assert len(kept(cache)) == 2, "on a screen, and in a file"


def test_a_recording_that_was_written_anew_is_read_anew(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    first = told("gaps", trace_file, "--format", "json")
    shutil.copy(recording("kineto/gemm_fp32.fix"), trace_file)
    assert told("gaps", trace_file, "--format", "json") != first


@pytest.mark.parametrize(
    "words", ["--top 3", "--device 0", "--step 0", "--limit ranks=10", "-q", "--format json"]
)
def test_options_are_part_of_the_question(
    words: str, cache: Path, only_pages: None, trace_file: Path
) -> None:
    plain = told("gaps", trace_file)
    told("gaps", trace_file, *words.split())
    assert len(kept(cache)) == 2
    assert told("gaps", trace_file) == plain


def test_how_wide_the_terminal_is_is_part_of_the_question(
    cache: Path, only_pages: None, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = told("gaps", trace_file)
    monkeypatch.setenv("COLUMNS", "150")
    assert told("gaps", trace_file) != narrow
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in told("gaps", trace_file)


def test_the_program_is_part_of_the_question(
    cache: Path, only_pages: None, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("gaps", trace_file)
    monkeypatch.setattr(pages, "program_state", lambda *_: "another version")
    told("gaps", trace_file)
    assert len(kept(cache)) == 2


def test_what_does_more_than_print_is_done_again(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    database = trace_file.with_name("runs.db")
    for _ in range(2):
        told("analyze", trace_file, "--store", database)
    assert not kept(cache)
    assert len(told("history", database, "--format", "csv").splitlines()) == 3


def test_a_command_that_warns_warns_again(cache: Path, only_pages: None, trace_file: Path) -> None:
    (trace_file.parent / "broken.json").write_text("{")
    for _ in range(2):
        assert "could not be read" in told("gaps", trace_file, trace_file.parent / "broken.json")
    assert not kept(cache)


def test_what_depends_on_files_of_the_users_is_not_kept(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    (gpus := trace_file.with_name("gpus.toml")).write_text("")
    told("analyze", trace_file, "--hardware", gpus)
    assert not kept(cache)


def test_what_was_read_is_not_overwritten(cache: Path, trace_file: Path) -> None:
    told("gaps", trace_file, "-o", trace_file.with_name("gaps.csv"))
    before = trace_file.read_bytes()
    result = CliRunner().invoke(
        cli, ["gaps", str(trace_file), "--format", "csv", "-o", str(trace_file)]
    )
    assert result.exit_code != 0
    assert trace_file.read_bytes() == before


def test_a_file_in_a_folder_that_is_not_there_is_an_error_again(
    cache: Path, trace_file: Path
) -> None:
    told("gaps", trace_file, "-o", trace_file.with_name("gaps.csv"))
    result = CliRunner().invoke(
        cli, ["gaps", str(trace_file), "-o", str(trace_file.parent / "none" / "gaps.csv")]
    )
    assert "is not a folder" in str(result.exception)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b" ",
        lambda data: data[:60] + b"x" + data[61:],
    ],
)
def test_a_damaged_page_is_made_again(
    change: Callable[[bytes], bytes], cache: Path, only_pages: None, trace_file: Path
) -> None:
    first = told("gaps", trace_file)
    (page,) = kept(cache)
    sound = page.read_bytes()
    page.write_bytes(change(sound))
    assert told("gaps", trace_file) == first
    assert page.read_bytes() == sound


def test_the_page_of_another_question_is_refused(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    told("gaps", trace_file, "--format", "json")
    (other,) = kept(cache)
    right = told("gaps", trace_file)
    (mine,) = set(kept(cache)) - {other}
    shutil.copy(other, mine)
    assert told("gaps", trace_file) == right


def test_a_page_that_others_may_write_is_not_believed(
    cache: Path, only_pages: None, trace_file: Path
) -> None:
    first = told("gaps", trace_file)
    (page,) = kept(cache)
    text = b"planted"
    with page.open("wb") as file:
        write_checked(file, page.stem, [text])
    assert told("gaps", trace_file) == "planted", "as it would be believed"
    page.chmod(0o666)
    assert told("gaps", trace_file) == first


def test_recordings_that_were_just_written_leave_no_page(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_S", 3600.0)
    told("gaps", trace_file)
    assert not cache.exists()


def test_recordings_of_any_size_leave_a_page(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_S", -1)
    monkeypatch.setattr(identity, "LEAST_PACKED_BYTES", 1 << 20)
    first = told("gaps", trace_file)
    assert cache.exists()
    monkeypatch.setattr("traceanalyzer.ingest.load", None)  # the second time nothing is read
    assert told("gaps", trace_file) == first


@pytest.mark.parametrize("name", ["compile/trace.log", "trace.json.gz-wal"])
def test_where_more_may_be_read_no_page_is_kept(name: str, cache: Path, trace_file: Path) -> None:
    assert answered_page(("?",), [str(trace_file)]) is not None
    (beside := trace_file.parent / name).parent.mkdir(exist_ok=True)
    beside.write_text("")
    assert answered_page(("?",), [str(trace_file)]) is None
    assert answered_page(("?",), [str(trace_file.parent / "nothing")]) is None


def test_a_recording_that_changes_while_it_is_read_leaves_no_page(
    cache: Path, trace_file: Path
) -> None:
    page = answered_page(("?",), [str(trace_file)])
    assert page is not None
    with trace_file.open("ab") as file:
        file.write(b"\0")
    pages.keep_page(page, "text")
    assert not cache.exists()


def test_printing_again_loads_no_analysis(cache: Path, trace_file: Path) -> None:
    """In processes of their own, as users run it: a recording large enough to be kept, and long
    settled."""
    with trace_file.open("ab") as file:
        file.write(bytes(MIB - trace_file.stat().st_size))  # as if it were large
    command = [sys.executable, "-c", PRINTS_AND_LOOKS, "gaps", str(trace_file)]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert (first.splitlines()[-1], second.splitlines()[-1]) == ("numpy: True", "numpy: False")
    assert first.splitlines()[:-1] == second.splitlines()[:-1]


def test_json_of_a_report_that_was_looked_at_loads_no_analysis(
    cache: Path, trace_file: Path, tmp_path: Path
) -> None:
    told("analyze", trace_file)
    file = trace_file.with_name("report.json")
    asked = ["analyze", str(trace_file), "--format", "json", "-o", str(file)]
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_AND_LOOKS, *asked], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "numpy: False"
    assert file.read_text() == told("analyze", trace_file, "--format", "json", "--no-cache")


@pytest.mark.parametrize("words", [["--redact-name", "gemm.*"], ["--top", "3"], ["--step", "1"]])
def test_json_of_a_report_is_that_of_its_options(
    words: list[str], cache: Path, trace_file: Path
) -> None:
    told("analyze", trace_file)
    told("analyze", trace_file, *words)
    asked = ["analyze", trace_file, *words, "--format", "json"]
    without = told(*asked, "--no-cache")
    read_with(cache=True)
    assert told(*asked) == without


def test_a_file_has_all_of_a_report_whose_answer_was_on_the_screen(
    cache: Path, trace_file: Path, tmp_path: Path
) -> None:
    told("analyze", trace_file)
    kept_file, without = tmp_path / "kept.txt", tmp_path / "without.txt"
    told("analyze", trace_file, "-o", kept_file)
    told("analyze", trace_file, "-o", without, "--no-cache")
    assert kept_file.read_text() == without.read_text()
