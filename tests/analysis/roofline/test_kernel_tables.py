"""The counted figures of kernels, and when the report says that they are another version's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.build import TraceBuilder
from traceanalyzer.analysis.roofline.kernel_tables import kernel_tables, other_version
from traceanalyzer.trace import Condition, Trace

COUNTED = kernel_tables().torch
SOFTMAX = "void softmax_warp_forward<float>(float*)"


def recorded(kernel: str, version: str | None) -> Trace:
    conditions = () if version is None else (Condition("PyTorch", version),)
    return replace(TraceBuilder().kernel(kernel, 0, 10).build(), conditions=conditions)


@pytest.mark.parametrize(
    ("kernel", "version", "said"),
    [
        (SOFTMAX, f"{COUNTED}.0+cu130", False),
        (SOFTMAX, "1.13.1", True),
        (SOFTMAX, f"{COUNTED}0.0", True),
        (SOFTMAX, "a build of mine", False),
        (SOFTMAX, None, False),
        ("my_kernel", "1.13.1", False),
    ],
)
def test_it_is_said_where_the_recordings_version_is_another(
    kernel: str, version: str | None, said: bool
) -> None:
    sentence = other_version(recorded(kernel, version))
    assert (sentence is not None) is said
    if sentence and version:
        assert COUNTED in sentence
        assert ".".join(version.split(".")[:2]) in sentence


def test_every_entry_says_something() -> None:
    tables = kernel_tables()
    assert all(any(entry[1:]) for entry in tables.slots)
    assert all(entry.tensors or entry.inputs for entry in tables.passes)
    assert all(flops > 0 for flops in tables.operator_flops.values())
