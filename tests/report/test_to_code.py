"""What leads from a finding to the program."""

from dataclasses import replace
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.report.outline.gains import leads

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_a_line_of_the_program_where_stacks_were_recorded() -> None:
    report = ta.analyze(SAMPLES / "sync_bound_stacks")
    found = {one.id: list(leads(report, one)) for one in report.findings}
    assert found["launch-latency"] == ["code: workloads.py(61): step"]
    assert found["host-waits"] == []  # its evidence has the line


def test_the_kernels_of_a_finding_as_a_command_of_nsight_compute() -> None:
    report = ta.analyze(SAMPLES / "wasteful_kernels")
    found = {one.id: list(leads(report, one)) for one in report.findings}
    assert found["channels-last"] == [
        "what limits its kernels: ncu --set basic --section WarpStateStats -k "
        "'regex:^(nchwToNhwcKernel|nhwcToNchwKernel)$' -c 10 python train.py"
    ]
    assert found["launch-latency"] == []


def test_what_nsight_compute_has_measured_is_said_and_not_asked_for() -> None:
    report = ta.analyze(SAMPLES / "wasteful_kernels")
    rows = [
        replace(row, main_stall="writes to finish (drain)", main_stall_share=0.4)
        if "nchwToNhwc" in row.name
        else row
        for row in report.tables["kernels"]
    ]
    measured = replace(report, tables={**report.tables, "kernels": rows})
    found = {one.id: list(leads(measured, one)) for one in measured.findings}
    first, rest = found["channels-last"]
    assert first.endswith(
        "nchwToNhwcKernel wait for writes to finish (drain): 40.0% of their cycles, by ncu"
    )
    assert "regex:^(nhwcToNchwKernel)$" in rest


def test_no_nsight_compute_for_other_vendors() -> None:
    report = ta.analyze(SAMPLES / "wasteful_kernels")
    devices = [replace(one, name="AMD Instinct MI300X") for one in report.devices]
    inputs = [replace(one, vendor="amd") for one in report.inputs]
    other = replace(report, devices=devices, inputs=inputs)
    assert not [text for one in other.findings for text in leads(other, one)]


def test_collectives_are_never_measured() -> None:
    report = ta.analyze(SAMPLES / "communication_bound")
    assert not [text for one in report.findings for text in leads(report, one) if "nccl" in text]
