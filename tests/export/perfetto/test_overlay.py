from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests import recorded
from tests.analysis.causes.test_gaps import Program
from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.export.perfetto.chrome_trace import PROCESS, merged_traces, overlay_pieces
from traceanalyzer.export.perfetto.overlay import build_overlay
from traceanalyzer.export.perfetto.tracks import Label, Overlay, Track
from traceanalyzer.ingest import load
from traceanalyzer.trace import Run

DATA = Path(__file__).resolve().parents[2] / "data" / "gpu"
RECORDING = DATA / "sync_bound.json.gz"
COMPUTING = DATA / "compute_bound.json.gz"
RECORDED = [
    path for path in recorded.KINETO if path.parent.name == "ablations" and ".base" in path.name
][:6]
KINETO = [RECORDING, DATA / "launch_bound.json.gz", *RECORDED]


def written(overlay):
    return b"".join(overlay_pieces(overlay))


def exact(document: bytes) -> dict:
    """JSON with its decimals as they are written."""
    return json.loads(document, parse_float=Decimal)


def tracks(document: bytes) -> dict[str, list[dict]]:
    """Slices and moments of the overlay by the name of their track."""
    events = [
        e
        for e in exact(document)["traceEvents"]
        if e.get("pid", -1) in range(PROCESS, PROCESS + 100)
    ]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = defaultdict(list)
    for event in events:
        if event["ph"] in "Xi":
            found[names[event["tid"]]].append(event)
        elif event["ph"] == "C":
            found[event["name"]].append(event)
    return found


def us(document: bytes) -> tuple[list[Decimal], list[Decimal]]:
    """Starts and ends of the device's work as the recording has them, in microseconds."""
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    ops = [e for e in exact(document)["traceEvents"] if e.get("cat") in kinds]
    return [Decimal(e["ts"]) for e in ops], [Decimal(e["ts"]) + Decimal(e["dur"]) for e in ops]


@pytest.mark.parametrize("path", KINETO, ids=lambda p: p.name)
def test_gaps_lie_exactly_between_the_recordings_device_ops(path: Path) -> None:
    starts, ends = us(gzip.decompress(path.read_bytes()))
    order = np.argsort(np.array(starts, dtype=object), kind="stable")
    found = tracks(written(build_overlay(load([path]))))
    gaps = [e for name, events in found.items() if name.startswith("idle gaps") for e in events]
    assert gaps
    begun = set(starts)
    done = set(ends)
    starts = [starts[i] for i in order]
    reach = np.maximum.accumulate(np.array([ends[i] for i in order], dtype=object))
    for gap in gaps:
        start = gap["ts"]
        end = gap["ts"] + gap["dur"]
        assert start in done
        assert end in begun
        before = int(np.searchsorted(np.array(starts, dtype=object), end)) - 1
        assert reach[before] == start


def test_the_critical_path_and_the_steps_are_on_the_recordings_clock() -> None:
    document = gzip.decompress(COMPUTING.read_bytes())
    overlay = written(build_overlay(load([COMPUTING])))
    found = tracks(overlay)
    assert exact(overlay)["baseTimeNanoseconds"] == exact(document)["baseTimeNanoseconds"]
    path = found["critical path"]
    steps = found["steps"]
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(path))
    steady = [s for s in steps if "args" not in s]
    assert (path[0]["ts"], path[-1]["ts"] + path[-1]["dur"]) == (
        steady[0]["ts"],
        steady[-1]["ts"] + steady[-1]["dur"],
    )
    begun = set(us(document)[0])
    computing = [s for s in path if s["name"].startswith("compute: ")]
    assert computing
    assert all(s["ts"] in begun for s in computing)
    inside = {i["ts"] for i in found["findings"]}
    assert all(path[0]["ts"] <= ts <= path[-1]["ts"] for ts in inside)


def test_the_queue_holds_what_was_launched_and_has_not_finished() -> None:
    run = load([RECORDING])
    overlay = build_overlay(run)
    ops = run.traces[0].device_ops
    calls = run.traces[0].api_calls
    launched = {int(c): int(t) for c, t in zip(calls.correlation, calls.start, strict=True)}
    for counter in overlay.counters:
        stream = int(counter.title.rsplit(" ", 1)[1])
        mine = [
            (launched[int(ops.correlation[i])], int(ops.end[i]))
            for i in np.flatnonzero(ops.stream == stream)
        ]
        assert counter.value[-1] == 0
        for time, value in list(zip(counter.time.tolist(), counter.value.tolist(), strict=True))[
            ::50
        ]:
            assert value == sum(start <= time < end for start, end in mine)


def test_merged_with_its_recording_both_are_whole(tmp_path: Path) -> None:
    target = tmp_path / "both.json.gz"
    result = CliRunner().invoke(cli, ["export", str(RECORDING), "--merge", "-o", str(target)])
    assert (result.exit_code, result.output) == (0, "")
    recording = exact(gzip.decompress(RECORDING.read_bytes()))
    both = exact(gzip.decompress(target.read_bytes()))
    added = len(both["traceEvents"]) - len(recording["traceEvents"])
    assert both["traceEvents"][added:] == recording["traceEvents"]
    assert {**both, "traceEvents": 0} == {**recording, "traceEvents": 0}
    assert {e["pid"] for e in both["traceEvents"][:added]} == {PROCESS}


@pytest.mark.parametrize(
    "recording", [b'{"traceEvents": []}', b" []", b'{"traceEvents": [{"ph": "M"}], "x": 1}']
)
def test_a_recording_with_any_list_of_events_can_be_merged(recording: bytes) -> None:
    events = json.loads(b"".join(merged_traces(small(), pieces_of(recording))))
    events = events if isinstance(events, list) else events["traceEvents"]
    assert sum(e.get("name") == "sync: \ufffd" or e.get("name") == "sync: ?" for e in events) == 1


def test_a_recording_without_events_cannot_be_merged() -> None:
    with pytest.raises(UnreadableInputError, match="no list of events"):
        list(merged_traces(small(), [b'{"events": 1}']))


def pieces_of(recording: bytes, size: int = 5) -> list[bytes]:
    return [recording[i : i + size] for i in range(0, len(recording), size)]


def test_a_list_of_events_is_found_across_pieces_and_after_anything() -> None:
    before = (
        b'{"deviceProperties": [' + b",".join([b"{}"] * 300) + b'], "traceEvents" : [{"ph": "M"}]}'
    )
    for size in (1, 7, 300, 100_000):
        both = json.loads(b"".join(merged_traces(small(), pieces_of(before, size))))
        assert both["traceEvents"][-1] == {"ph": "M"}
        assert len(both["deviceProperties"]) == 300
        assert len(both["traceEvents"]) > 1


def small() -> Overlay:
    track = Track("t", np.array([-1_001]), np.array([5]), np.array([0]), [Label("sync", "\ud800")])
    return Overlay("r.json", "kineto", 3, 7, [track], [])


def test_times_before_the_base_and_text_that_is_no_unicode_are_written() -> None:
    document = written(small())
    assert b'"ts":-1.001,' in document
    assert json.loads(document)["traceEvents"][0]["pid"] == PROCESS + 3


def test_one_step_is_all_there_is_where_one_is_asked_for() -> None:
    run = load([RECORDING])
    whole = build_overlay(run)
    one = build_overlay(run, Selection(step=2))
    steps = one.tracks[0]
    assert len(steps.start) == 1
    for track in one.tracks[1:3]:
        assert 0 < len(track.start) < len({t.title: t for t in whole.tracks}[track.title].start)
    with pytest.raises(EmptyRecordingError):
        build_overlay(run, Selection(step=99))


def test_a_recording_without_device_work_still_has_an_overlay() -> None:
    trace = Program().within("forward", 10).build()
    path, findings = build_overlay(Run((trace,))).tracks[1:]
    assert len(path.start) == 0
    assert [label.name for label in findings.labels] == ["cpu-only"]


def test_redaction_reaches_every_text() -> None:
    result = CliRunner().invoke(
        cli, ["overlay", str(RECORDING), "--redact-name", "aten::.*", "--redact-name", "gemm"]
    )
    assert result.exit_code == 0
    assert not re.search(r"aten::|gemm", result.stdout)
    assert "name-1" in result.stdout


def test_an_export_that_the_viewer_cannot_open_brings_its_device_work(tmp_path: Path) -> None:
    (path,) = (DATA.parents[2] / "sample_traces" / "nsys_sync_bound").glob("*.sqlite*")
    found = tracks(written(build_overlay(load([path]))))
    ops = load([path]).traces[0].device_ops
    assert sum(
        len(events) for name, events in found.items() if re.match(r"GPU \d+, stream", name)
    ) == len(ops)
    result = CliRunner().invoke(cli, ["overlay", str(path), "--merge"])
    assert result.exit_code == 1 or "only Kineto" in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [["--merge", "--redact"], ["-o", "RECORDING"], ["--rank", "-1"]],
    ids=lambda a: a[0],
)
def test_arguments_that_make_no_sense_are_usage_errors(arguments: list[str]) -> None:
    arguments = [str(RECORDING) if a == "RECORDING" else a for a in arguments]
    assert CliRunner().invoke(cli, ["export", str(RECORDING), *arguments]).exit_code == 2
