"""Which parts are matched, what a change is called, and that nothing is lost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.comparison.build import idle, part, report
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.matching import How, match_parts
from traceanalyzer.report.model import Report
from traceanalyzer.report.names.kernel_labels import LABEL_WIDTH

STEP = [
    part("aten::embedding", "gather", 1),
    part("aten::mm", "gemm_a", 5, shapes="[[8, 8]]", dtypes="float"),
]
END = [part("aten::sum", "reduce", 1)]


def changes(a, b):
    return compare_reports(report(*a), report(*b)).changes


def first(a, b):
    change = changes(a, b)[0]
    return change.kind, change.title


def test_a_kernel_that_became_faster():
    mm = part("aten::mm", "gemm_a", 3, shapes="[[8, 8]]", dtypes="float")
    assert first([*STEP, *END], [STEP[0], mm, *END]) == ("faster", "aten::mm: faster")


def test_an_operator_that_runs_less_often():
    a = [*STEP, part("aten::relu", "relu", 4, calls=8), *END]
    b = [*STEP, part("aten::relu", "relu", 1, calls=2), *END]
    assert first(a, b) == ("fewer_calls", "aten::relu: fewer of them (8 → 2 a step)")
    assert first(b, a) == ("more_calls", "aten::relu: more of them (2 → 8 a step)")


def test_other_kernels_for_the_same_inputs():
    mm = part("aten::mm", "gemm_b", 2, shapes="[[8, 8]]", dtypes="float")
    assert first([*STEP, *END], [STEP[0], mm, *END]) == (
        "other_kernels",
        "aten::mm: other kernels (gemm_a → gemm_b)",
    )


def test_other_types_of_numbers():
    mm = part("aten::mm", "gemm_b", 2, shapes="[[8, 8]]", dtypes="BFloat16")
    assert first([*STEP, *END], [STEP[0], mm, *END]) == (
        "other_types",
        "aten::mm: other types (float → BFloat16)",
    )


def test_other_shapes_of_most_of_the_work_are_one_change():
    a = [
        part("aten::mm", "g", 5, shapes="[[2, 8]]"),
        part("aten::relu", "r", 2, shapes="[[2, 8]]"),
        *END,
    ]
    b = [
        part("aten::mm", "h", 9, shapes="[[4, 8]]"),
        part("aten::relu", "r", 4, shapes="[[4, 8]]"),
        *END,
    ]
    result = compare_reports(report(*a), report(*b))
    change = result.changes[0]
    assert (change.kind, change.title) == (
        "other_shapes",
        "the same operators on other shapes (aten::mm, aten::relu)",
    )
    assert [d.what for d in change.details] == [
        "aten::mm [[2, 8]] → [[4, 8]]",
        "aten::relu [[2, 8]] → [[4, 8]]",
    ]
    condition = result.conditions[0]
    assert (condition.name, condition.incomparable) == ("input shapes", True)
    assert "sizes that differ are 2 times A's" in condition.effect
    assert "If B's batch" not in result.headline, "both say how many samples a step has"


def test_a_batch_that_is_not_known_is_what_sizes_would_make_it():
    a = [part("aten::mm", "g", 5, shapes="[[2, 8]]"), *END]
    b = [part("aten::mm", "h", 7, shapes="[[4, 8]]"), *END]
    result = compare_reports(report(*a, throughput=None), report(*b, throughput=None))
    wanted = "If B's batch is 2 times A's, it is faster per sample: -33.3% (--samples 1,2). "
    assert result.headline.startswith(wanted)
    assert "The step alone: slower: " in result.headline


def test_other_shapes_of_a_little_are_the_operators_own():
    relu = [part("aten::relu", "r", ms, shapes=f"[[{ms}]]") for ms in (1, 2)]
    assert first([*STEP, relu[0]], [*STEP, relu[1]]) == ("other_shapes", "aten::relu: other shapes")


def test_what_stands_at_the_same_place_was_replaced():
    written_out = [
        part("aten::pow", "pow", 1),
        part("aten::rsqrt", "rsqrt", 1),
        part("aten::var", "var", 2),
    ]
    fused = [part("aten::native_layer_norm", "layer_norm", 0.5)]
    change = changes([*STEP, *written_out, *END], [*STEP, *fused, *END])[0]
    assert change.title == "aten::var, aten::pow, aten::rsqrt → aten::native_layer_norm"
    assert change.kind == "replaced"
    assert change.difference_ms == pytest.approx(-3.5)
    assert len(change.details) == 4


def test_renamed_kernels_without_operators_are_paired_by_their_place():
    a, b = ([part(kernel=k) for k in ("start", name, "end")] for name in ("gemm_v1", "gemm_v2"))
    (change,) = [c for c in changes(a, b) if c.kind == "replaced"]
    assert change.title == "gemm_v1 → gemm_v2"


def test_gone_and_added():
    extra = [part("aten::abs", "abs", 1), part("aten::max", "max", 2)]
    assert first([*STEP, *extra, *END], [*STEP, *END]) == ("gone", "aten::max, aten::abs: removed")
    assert first([*STEP, *END], [*STEP, *extra, *END]) == ("added", "aten::max, aten::abs: added")


def test_kernels_of_a_graph_are_those_that_operators_launched():
    a = [part("aten::addmm", "gemm", 2), part("aten::relu", "relu", 1)]
    b = [part(None, "gemm", 2), part(None, "relu", 1)]
    assert {c.kind for c in changes(a, b)} == {"unchanged"}


def test_collectives_and_copies_go_by_what_they_do():
    comm = part(
        "record_param_comms",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        3,
        of="exposed_communication",
    )
    copy = [
        part("aten::copy_", f"Memcpy HtoD ({kind} -> Device)", ms, of="exposed_copy")
        for kind, ms in (("Pageable", 4), ("Pinned", 1))
    ]
    assert first([*STEP, comm], STEP) == ("gone", "all_reduce: removed")
    kind, title = first([*STEP, copy[0]], [*STEP, copy[1]])
    assert kind == "other_kernels"
    assert "Pageable" in title
    assert "Pinned" in title


def test_idle_time_goes_by_its_cause_and_names_the_wait():
    a = [
        *STEP,
        idle("sync", 6, "aten::item", "cudaStreamSynchronize"),
        idle("launch", 1, "aten::mm"),
    ]
    b = [*STEP, idle("launch", 3, "aten::mm")]
    wait, launch = changes(a, b)[:2]
    assert wait.title == "less idle time, syncs (cudaStreamSynchronize in aten::item)"
    assert launch.title == "more idle time, launches"


def test_launching_says_how_many_launches_there_are():
    a, b = (
        report(*STEP, idle("launch", ms, "aten::mm"), launches_per_step=count)
        for ms, count in ((6, 320.0), (1, 4.0))
    )
    title = compare_reports(a, b).changes[0].title
    assert title == "less idle time, launches (320 → 4 a step)"


def test_collectives_of_other_sizes():
    a, b = (
        part(
            "record_param_comms",
            "ncclAllReduce",
            ms,
            shapes=f"[[{ms}]]",
            calls=n,
            of="exposed_communication",
        )
        for ms, n in ((8, 1), (2, 4))
    )
    assert first([*STEP, a], [*STEP, b]) == (
        "other_shapes",
        "all_reduce: other sizes (1 → 4 a step)",
    )


def test_changes_within_noise_come_last_whatever_their_size():
    a = [part("aten::mm", "g", 100.0), part("aten::relu", "r", 1)]
    b = [part("aten::mm", "g", 101.5), part("aten::relu", "r", 2)]
    assert [c.title for c in changes(a, b)] == ["aten::relu: slower", "aten::mm: slower"]


names = st.sampled_from(["a", "b", "c", None])
parts = st.lists(
    st.builds(
        part,
        names,
        st.sampled_from(["k", "l", "Memcpy HtoD (x -> y)"]),
        st.integers(1, 9),
        shapes=st.sampled_from(["[[1]]", "[[2]]", None]),
        of=st.sampled_from(["compute", "idle", "exposed_copy", "exposed_communication"]),
        cls=st.sampled_from(["gemm", "launch", "sync"]),
    ),
    min_size=1,
    max_size=12,
)


@given(parts, parts)
def test_every_part_is_in_exactly_one_change(a, b):
    groups = match_parts(a, b)
    assert sorted(id(p) for g in groups for p in g.a) == sorted(map(id, a))
    assert sorted(id(p) for g in groups for p in g.b) == sorted(map(id, b))
    result = compare_reports(report(*a), report(*b))
    assert sum(c.difference_ms for c in result.changes) == pytest.approx(
        result.b.step_ms - result.a.step_ms
    )


@given(parts)
def test_a_step_is_no_different_from_itself(a):
    assert all(link.how is How.SAME for group in match_parts(a, a) for link in group.links)
    result = compare_reports(report(*a), report(*a))
    assert result.headline.startswith("No significant change")
    assert not any(c.significant for c in result.changes)


def copied(count: float, ms: float, size: float | None) -> CopyStats:
    """Copies to the device."""
    return CopyStats(
        None,
        0,
        "host to device",
        None,
        None,
        "over 64 MB",
        None,
        None,
        None,
        count,
        size,
        ms,
        ms,
        None,
    )


def copies_of(ms: float, size: float | None) -> Report:
    name = "Memcpy HtoD (Pageable -> Device)"
    step = report(*STEP, part(None, name, ms, of="exposed_copy", cls="copy"))
    return replace(step, tables=step.tables | {"copies": [copied(1.0, ms, size)]})


@pytest.mark.parametrize(
    ("a", "b", "kind", "title"),
    [
        (
            (155.0, 2.03e9),
            (11.8, 160e6),
            "fewer_bytes",
            "Memcpy HtoD: fewer bytes (2.03 GB → 160 MB a step, bandwidth unchanged)",
        ),
        (
            (10.0, 100e6),
            (10.0 / 4, 50e6),
            "fewer_bytes",
            "Memcpy HtoD: fewer bytes (100 MB → 50.0 MB a step, 10.0 → 20.0 GB/s)",
        ),
        ((10.0, 100e6), (4.0, 100e6), "faster", "Memcpy HtoD: faster"),
        ((10.0, None), (4.0, 100e6), "less_time", "Memcpy HtoD: less time (bytes not known)"),
    ],
)
def test_copies_that_moved_fewer_bytes_are_not_faster(a, b, kind, title) -> None:
    """Only copies of as many bytes are faster or slower."""
    found = compare_reports(copies_of(*a), copies_of(*b)).changes[0]
    assert (found.kind, found.title) == (kind, title)


def test_large_times_have_no_exponent() -> None:
    """1,420 ms, not 1.42e+03."""
    a = copies_of(1_577.0, 2.0e9)
    b = copies_of(157.0, 0.2e9)
    assert compare_reports(a, b).headline.endswith("bandwidth unchanged), -1,420 ms.")


def test_kernels_outside_of_operators_go_by_their_labels() -> None:
    """Tables call them so, and no two alike."""
    names = [f"Cijk_Ailk_Bljk_SB_MT{n}x64x16_MI32x32x2x1_SN_1LDSB1_APM1_ABV0" for n in (64, 128)]
    a, b = ([part(None, name, ms), *END] for name, ms in zip(names, (9.0, 4.0), strict=True))
    (title,) = {one.title for one in changes(a, b) if "Cijk" in one.title}
    before, _, after = title.partition(" → ")
    assert before != after
    assert all(len(name) <= LABEL_WIDTH for name in (before, after))
