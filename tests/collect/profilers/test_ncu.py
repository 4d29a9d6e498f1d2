"""`collect ncu` with a program that stands in for ncu."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from tests.collect.running import SCRIPTS, collect, standing_in
from tests.collect.stand_in_ncu import SECRET
from traceanalyzer.analysis.names.kernel_names import function_name
from traceanalyzer.collect.profilers.ncu import KEPT, METRICS, STALLS, NcuOptions, profile_command
from traceanalyzer.ingest.ncu import read_counters

ROOT = Path(__file__).parents[3]
RECORDING = ROOT / "tests" / "data" / "gpu" / "memory_bound.json.gz"
PRINTS = (sys.executable, "-c", "print('out'); raise SystemExit(5)")


@pytest.fixture
def stand_in(tmp_path):
    """Environment in which `ncu` is the stand-in, and the file of its arguments."""
    return standing_in("ncu", tmp_path)


def test_top_kernels_of_a_recording_are_measured_and_the_table_says_nothing_else(
    tmp_path, stand_in
):
    environment, log = stand_in
    folder = tmp_path / "capture"
    done = collect(
        "ncu",
        "-o",
        folder,
        "--trace",
        RECORDING,
        "--top",
        2,
        "--whole-run",
        "--",
        *PRINTS,
        **environment,
    )
    assert (done.returncode, done.stdout) == (5, "out\n"), done.stderr
    assert f"next: traceanalyzer analyze TRACE --ncu {folder}/ncu.csv" in done.stderr
    words = json.loads(log.read_text())
    chosen = words[words.index("--kernel-name") + 1]
    assert chosen.startswith("regex:^(")
    assert chosen.count("|") < 2
    assert words[words.index("--launch-count") + 1] == "10"
    assert words[words.index("--metrics") + 1].split(",") == list(METRICS)
    assert SECRET not in (folder / "ncu.csv").read_text()
    (head, *_) = csv.reader((folder / "ncu.csv").read_text().splitlines())
    assert head == list(KEPT)


def test_every_metric_is_one_that_analyze_reads(tmp_path, stand_in):
    environment, _ = stand_in
    folder = tmp_path / "capture"
    collect("ncu", "-o", folder, "--kernel", "softmax", "--whole-run", "--", *PRINTS, **environment)
    (kernel,) = read_counters(folder / "ncu.csv")
    assert (kernel.name, kernel.blocks, kernel.threads) == ("void softmax<4>(int)", 16, 128)
    assert None not in vars(kernel).values()
    assert kernel.stalls == ()
    assert kernel.dram_bytes == 100


def test_stalls_are_measured_if_asked_for(tmp_path, stand_in):
    environment, log = stand_in
    folder = tmp_path / "capture"
    collect(
        "ncu",
        "-o",
        folder,
        "--kernel",
        "softmax",
        "--whole-run",
        "--stalls",
        "--",
        *PRINTS,
        **environment,
    )
    words = json.loads(log.read_text())
    assert words[words.index("--metrics") + 1].split(",") == list(METRICS)
    assert words[words.index("--section") + 1] == STALLS
    (kernel,) = read_counters(folder / "ncu.csv")
    assert kernel.stalls == (("writes to finish (drain)", 0.75),)


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("error", "ncu: no such metric"),
        ("none", "ncu saw none of these kernels"),
        ("nothing", "ncu left no report"),
    ],
)
def test_what_went_wrong_is_said(tmp_path, stand_in, says, expected):
    environment, _ = stand_in
    folder = tmp_path / "capture"
    done = collect(
        "ncu",
        "-o",
        folder,
        "--kernel",
        "x",
        "--whole-run",
        "--",
        *PRINTS,
        STAND_IN_SAYS=says,
        **environment,
    )
    assert done.returncode == 5
    assert expected in done.stderr
    assert not (folder / "ncu.csv").exists()


def test_one_step_is_measured_of_a_script(tmp_path, stand_in):
    pytest.importorskip("torch")
    environment, log = stand_in
    words = (
        "-o",
        tmp_path / "capture",
        "--wait",
        2,
        "--kernel",
        "x",
        "--",
        SCRIPTS / "train.py",
        6,
    )
    done = collect("ncu", *words, STAND_IN_SAYS="none", **environment)
    assert "the script does not use CUDA" in done.stderr
    assert "--profile-from-start" in json.loads(log.read_text())


def test_kernels_must_be_chosen(tmp_path):
    done = collect("ncu", "-o", tmp_path / "capture", "--", sys.executable, "x")
    assert done.returncode == 2
    assert "--trace FILE or --kernel REGEX" in done.stderr


def test_a_trace_without_kernels_is_refused(tmp_path):
    trace = tmp_path / "empty.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 2}]}'
    )
    done = collect("ncu", "-o", tmp_path / "capture", "--trace", trace, "--", sys.executable, "x")
    assert done.returncode == 1
    assert "holds no kernels" in done.stderr


def test_without_ncu_it_says_where_to_get_it(tmp_path):
    words = ("-o", tmp_path / "capture", "--kernel", "x", "--", sys.executable, "x")
    done = collect("ncu", *words, PATH="/nonexistent")
    assert done.returncode == 1
    assert "ncu is not installed" in done.stderr
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<c10::BFloat16, 10>(c10::BFloat16*)",
            None,
        ),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(int)", "Kernel2"),
        ("nvjet_sm90_tst_64x8_64x16_2x4_h_bz_NNT", "nvjet_sm90_tst_64x8_64x16_2x4_h_bz_NNT"),
        ("void f<g(int)::{lambda(float)#1}>(int, h<2>)", "f"),
        ("<odd>", "<odd>"),
    ],
)
def test_function_names(kernel, function):
    assert function_name(kernel) == (function or "softmax_warp_forward")


def test_names_are_matched_literally_and_whole(tmp_path):
    words = profile_command("ncu", tmp_path, NcuOptions(("a.b", "c")), ["run"])
    assert r"regex:^(a\.b|c)$" in words
    assert words[-1] == "run"
