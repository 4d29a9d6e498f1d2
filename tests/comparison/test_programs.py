"""Two programs are told from one before and after a remedy."""

from dataclasses import replace

import pytest

from tests.comparison.build import idle, part, report
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.report.model import Report
from traceanalyzer.trace import Condition

MM = part("aten::mm", "gemm_fp32", 8)
ADD = part("aten::add", "add", 2)


def program(*parts: object, parameters: str = "137,737,217") -> Report:
    """A report of a program whose capture states how large its model is."""
    made = report(*parts, idle("launch", 1))
    stated = [Condition("parameters", parameters)] if parameters else []
    return replace(made, tables=made.tables | {"conditions": stated})


BASE = program(MM, ADD)
OTHER = (part("aten::convolution", "conv", 7), ADD)


def test_models_of_other_sizes_with_little_in_common_are_two_programs():
    found = compare_reports(BASE, program(*OTHER, parameters="4,198,755"))
    assert found.verdict == "not_comparable"
    assert found.headline.startswith("Not like for like: other kernels.")
    (condition,) = (c for c in found.conditions if c.name == "kernels")
    assert condition.effect.startswith("22% of the kernel time")


@pytest.mark.parametrize(
    "after",
    [
        program(part("aten::mm", "gemm_bf16", 3), ADD),  # bf16: other kernels
        program(part("triton", "triton_mm", 6), ADD),  # compiled
        program(part("triton", "triton_all", 6)),  # all in one kernel
        program(part("aten::mm", "gemm_fp32", 4), ADD, parameters="60,000,000"),  # half the layers
        program(*OTHER, parameters="138,000,000"),  # a padded vocabulary
        program(*OTHER, parameters=""),
    ],
)
def test_a_remedy_makes_no_other_program(after):
    found = compare_reports(BASE, after)
    assert found.verdict != "not_comparable"
    assert not any(c.incomparable for c in found.conditions)
