"""The samples: recorded by our collectors on real GPUs, small, without a trace of the machine, and
well diagnosed."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from tests.analyzed import loaded, measurements, reported
from tests.recorded import CASES, ranks
from traceanalyzer.base.figures import ELLIPSIS
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis import selection
from traceanalyzer.diagnosis.finding import BottleneckClass
from traceanalyzer.diagnosis.pages import finding_page
from traceanalyzer.diagnosis.remedies import advice
from traceanalyzer.diagnosis.selection import MeasuredRanks
from traceanalyzer.report.explain import explained
from traceanalyzer.report.format import DEFAULT_WIDTH
from traceanalyzer.report.markdown.issue import BRIEF
from traceanalyzer.report.outline import breakdown
from traceanalyzer.report.terminal.screen import render_screen
from traceanalyzer.trace import Run

FOLDER = Path(__file__).resolve().parents[1] / "sample_traces"
SAMPLES = sorted(path for path in FOLDER.iterdir() if (path / "environment.json").exists())
CLASSES = {
    "changing_shapes": "host",
    "compiled": "launch",
    "communication_bound": "communication",
    "compute_bound": "compute",
    "cuda_graph": "compute",
    "host_bound": "host",
    "input_bound": "input",
    "launch_bound": "launch",
    "memory_bound": "memory",
    "nsys_cuda_graph": "compute",
    "nsys_input_bound": "input",
    "nsys_sync_bound": "sync",
    "straggler": "compute",
    "sync_bound": "sync",
    "sync_bound_stacks": "sync",
    "sync_every_layer": "sync",
    "sync_fixed": "compute",
    "tensor_parallel": "communication",
    "timing_input_bound": "input",
    "timing_irregular": "inconclusive",
    "transfer_bound": "transfer",
    "wasteful_kernels": "memory",
}
TERMS = (
    *(
        "compute",
        "memory-bound",
        "sync-bound",
        "inconclusive",
        "clear",
        "two causes",
        "step",
        "with the profiler",
    ),
    *(
        "as recorded",
        "steps/s",
        "MFU",
        "reachable",
        "GPU busy",
        "speed of light",
        "roofline",
        "exposed copy",
    ),
    *(
        "exposed communication",
        "idle",
        "transfer",
        "forward",
        "backward",
        "optimizer",
        "reserved",
        "gemm",
        "elementwise",
    ),
    *(
        "layout",
        "kernel",
        "rank",
        "all_reduce",
        "pageable memory",
        "pinned memory",
        "CUDA graph",
        "TF32",
        "bf16",
    ),
    *(
        "channels-last",
        "throttling",
        "outside the steps",
        "gain unknown",
        "for the same work",
        "per step",
    ),
)
"""Technical terms of the first screens."""
NOT_ON_SAMPLES = (
    *(
        "likely",
        "close call",
        "without the profiler",
        "headroom",
        "critical rank",
        "steady state",
        "confidence",
    ),
    *("waiting", "waiting for ranks", "for the recording"),
)
"""Terms of the screens of other recordings, and of the reports' other parts."""
LINES = 24
"""Of the first screen at 80 columns, at most: a terminal's height, so no pager opens."""
SCREENS = (
    *(
        "gaps",
        "kernels",
        "ops",
        "path",
        "steps",
        "syncs",
        "copies",
        "comm",
        "modules",
        "whatif",
        "compare",
        "fleet",
    ),
)
"""Commands whose first screens are held to that height, too."""
every_sample = pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name, scope="module")
"""Of the module: all tests of one sample follow one another, so that each is analyzed one time."""
MACHINE = re.compile(rb"/(?:root|home|tmp|opt|work|usr|mnt)/|LD_LIBRARY_PATH|PYTHONPATH|HOSTNAME")


@pytest.fixture
def measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the samples as other tests have read and measured them."""

    def of_sample(run: Run, *_: object) -> MeasuredRanks:
        return measurements(Path(run.traces[0].path).parent)

    monkeypatch.setattr("traceanalyzer.ingest.load", lambda files, **_: loaded(*map(Path, files)))
    for user in (advice, selection):
        monkeypatch.setattr(user, "measured", of_sample)


def test_there_is_a_sample_of_every_kind() -> None:
    assert {path.name for path in SAMPLES} == set(CLASSES)
    assert sum(f.stat().st_size for path in SAMPLES for f in path.iterdir()) < 10e6


@every_sample
def test_what_the_analyzer_says_of_it(path: Path) -> None:
    report = reported(path)
    assert report.summary.bottleneck == CLASSES[path.name]
    if report.inputs[0].kind != "timing_log":
        assert report.metrics.unprofiled_source == "measured"


def fits_in_width(lines: list[str]) -> bool:
    """Whether all lines fit but commands, which are pasted whole."""
    return all(len(line) <= DEFAULT_WIDTH or " traceanalyzer " in line for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_the_first_screen_of_a_recording_fits(name: str) -> None:
    lines = render_screen(reported(*ranks(name))).splitlines()
    assert len(lines) <= LINES
    assert fits_in_width(lines)


@every_sample
def test_its_first_screen_fits_and_no_sentence_is_cut(path: Path) -> None:
    lines = render_screen(reported(path)).splitlines()
    assert len(lines) <= LINES
    assert fits_in_width(lines)
    assert not any(ELLIPSIS in line for line in lines)


@every_sample
@pytest.mark.usefixtures("measured_before")
def test_the_screens_of_its_tables_fit(path: Path) -> None:
    for command in SCREENS:
        sides = [str(FOLDER / "sync_bound")] if command == "compare" else []
        lines = (
            CliRunner()
            .invoke(cli, [command, *sides, str(path)], env={"COLUMNS": "80"})
            .stdout.splitlines()
        )
        assert len(lines) <= LINES, (command, lines)
        assert max(map(len, lines), default=0) <= DEFAULT_WIDTH, (command, lines)


@every_sample
def test_every_term_of_its_first_screen_is_explained(path: Path) -> None:
    report = reported(path)
    text = render_screen(report)
    found = [
        term
        for term in TERMS
        if re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text, re.IGNORECASE)
    ]
    found += [part.label for part in breakdown.budget(report)]
    assert len(found) >= 2
    assert not [term for term in found if not known(term)]


@every_sample
def test_its_headline_has_the_share_that_the_budgets_row_has(path: Path) -> None:
    report = reported(path)
    rows = {part.label: f"{part.share:.0%}" for part in breakdown.budget(report)}
    told = re.findall(r"(exposed communication|compute) (\d+%)", report.summary.headline)
    if report.summary.bottleneck == "communication" and report.summary.beside is None:
        told += [("exposed communication", re.findall(r"\((\d+%)\)", report.summary.headline)[0])]
    assert [(name, share) for name, share in told if rows[name] != share] == []


def test_every_verdict_is_explained() -> None:
    verdicts = [f"{name}-bound" for name in get_args(BottleneckClass) if name != "inconclusive"]
    assert not [term for term in (*verdicts, *NOT_ON_SAMPLES) if not known(term)]


def known(term: str) -> bool:
    """Whether `explain` has it, in a sentence or two where it is a word."""
    entries = explained(term)
    assert all(len(re.findall(r"[.:;]\s", e.meaning)) <= 2 for e in entries if e.where == "word")
    return bool(entries) or finding_page(term) is not None


@every_sample
@pytest.mark.usefixtures("measured_before")
def test_its_markdown_is_short_enough_to_attach(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    lengths = []
    for options in ([], ["--full"]):
        assert (
            CliRunner().invoke(cli, ["analyze", str(path), "-o", str(file), *options]).exit_code
            == 0
        )
        lengths.append(len(file.read_text(encoding="utf-8")))
    assert lengths[0] <= BRIEF
    assert lengths[0] < lengths[1]


@every_sample
def test_it_holds_nothing_of_the_machine_it_was_recorded_on(path: Path) -> None:
    for file in path.iterdir():
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert not MACHINE.search(content), file.name


def test_the_readme_has_a_row_for_each() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)/`", text, re.MULTILINE)) == set(CLASSES)


PLACE = re.compile(rb"workloads\.py\((\d+)\): (\w+)")


def test_places_in_samples_are_functions_of_the_program_beside_them() -> None:
    lines = (FOLDER / "workloads.py").read_text().splitlines()
    recorded = (gzip.decompress(path.read_bytes()) for path in FOLDER.glob("*/*.json.gz"))
    found = {place for text in recorded for place in PLACE.findall(text)}
    assert found
    for line, name in sorted(found):
        assert lines[int(line) - 1].lstrip().startswith(f"def {name.decode()}("), (line, name)
