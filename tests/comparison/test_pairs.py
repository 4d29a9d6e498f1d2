"""Recordings before and after one known change: the change is named first, and the parts sum to the
difference."""

from __future__ import annotations

from functools import cache

import pytest

import traceanalyzer as ta
from tests.analyzed import reported
from tests.recorded import ranks, recording
from traceanalyzer.report.json import dump

PAIRS = {
    # What changed, as `manifest.json` beside the recordings says; then how it shows.
    "kineto/adam_big.fix": ("compute", "replaced", "aten::_fused_adamw_"),
    "kineto/gemm_fp32.fix": ("compute", "other_kernels", "aten::mm"),
    "kineto/item_every_layer.fix": ("idle", "less_idle", "aten::_local_scalar_dense"),
    "kineto/manual_layernorm.fix": ("compute", "replaced", "aten::native_layer_norm"),
    "kineto/python_between_ops.fix": ("idle", "less_idle", "other CPU work"),
    "kineto/slow_dataloader.fix": ("idle", "less_idle", "input"),
    "kineto/tiny_mlp_infer.fix": ("idle", "less_idle", "launches"),
    "kineto/vit_small_batch.fix": ("compute", "other_shapes", "other shapes"),
    "ranks2/ddp_accum_sync.fix": ("exposed_communication", "fewer_calls", "all_reduce"),
    "ranks2/straggler.fix": ("compute", "fewer_calls", "aten::mm"),
    "ranks2/tensor_parallel.fix": ("exposed_communication", "gone", "all_reduce"),
    "ablations/copy_pinned.without": ("exposed_copy", "gone", "HtoD"),
    "pairs/ddp_exposed_large.without": ("exposed_communication", "gone", "all_reduce"),
    "ablations/graph_decode.without": ("idle", "less_idle", "launches"),
    "pairs/input_slow.without": ("idle", "less_idle", "input"),
    "ablations/item_long_layers.without": ("idle", "less_idle", "aten::_local_scalar_dense"),
    "ablations/item_small_layers.without": ("idle", "less_idle", "aten::_local_scalar_dense"),
    "ablations/straggler_compute.without": ("compute", "fewer_calls", "aten::mm"),
    "ablations/tp_small.without": ("exposed_communication", "gone", "all_reduce"),
}
HIDDEN = "ablations/python_hidden.without"
"""Host work that the GPU hides was removed: nothing changed that anyone waits for."""
AGAIN = ("copy_pinned", "graph_decode", "python_hidden", "tp_small", "item_long_layers")
"""Programs that were recorded again, with synchronisation events, and whose steps took as long."""


@cache
def comparison(after: str, before: str | None = None):
    stem = after.rsplit(".", 1)[0] if before is None else before
    return ta.compare(reported(*ranks(stem if before else f"{stem}.base")), reported(*ranks(after)))


@pytest.mark.parametrize("after", PAIRS)
def test_what_was_changed_is_named_first(after):
    part, kind, name = PAIRS[after]
    first = comparison(after).changes[0]
    assert (first.part, first.kind) == (part, kind)
    assert name in first.title
    assert first.title in comparison(after).headline
    assert first.significant


@pytest.mark.parametrize("after", [*PAIRS, HIDDEN])
def test_the_parts_sum_to_the_difference_of_the_step_times(after):
    result = comparison(after)
    time = result.b.step_ms - result.a.step_ms
    assert result.step.difference_ms == pytest.approx(time, abs=1e-6)
    assert sum(c.difference_ms for c in result.changes) == pytest.approx(time, abs=1e-6)
    assert sum(p.difference_ms for p in result.budget if "." not in p.name) == pytest.approx(
        time, abs=1e-6
    )
    for change in result.changes:
        assert sum(d.difference_ms for d in change.details) == pytest.approx(
            change.difference_ms, abs=1e-6
        )


def test_removing_hidden_host_work_is_no_significant_change():
    result = comparison(HIDDEN)
    assert result.headline.startswith("No significant change")
    assert result.step.significant is False


@pytest.mark.parametrize("name", AGAIN)
def test_the_same_program_recorded_again_is_no_significant_change(name):
    result = comparison(f"ablations/{name}.base.syncevents", f"ablations/{name}.base")
    assert result.step.significant is False
    assert [c.name for c in result.conditions if c.incomparable] == []
    assert "recorder's options" in [c.name for c in result.conditions]


@pytest.mark.parametrize("name", ["straggler_compute", "item_small_layers"])
def test_where_the_machine_was_faster_it_is_said_that_the_work_is_the_same(name):
    result = comparison(f"ablations/{name}.base.syncevents", f"ablations/{name}.base")
    assert result.step.significant
    assert "same GPU work" in result.headline


@pytest.mark.parametrize("after", PAIRS)
def test_the_other_way_round_is_the_opposite(after):
    stem = after.rsplit(".", 1)[0]
    back = ta.compare(reported(*ranks(after)), reported(*ranks(f"{stem}.base")))
    there = comparison(after)
    assert back.step.difference_ms == pytest.approx(-there.step.difference_ms)
    assert back.changes[0].difference_ms == pytest.approx(-there.changes[0].difference_ms)


@pytest.mark.parametrize("name", ["kineto/adam_big", "kineto/vit_small_batch"])
def test_saved_reports_say_what_fresh_ones_do(name, tmp_path):
    from traceanalyzer.report.json import render_json

    for side in ("base", "fix"):
        (tmp_path / f"{side}.json").write_text(
            render_json(reported(*ranks(f"{name}.{side}"))), encoding="utf-8"
        )
    saved = ta.compare(tmp_path / "base.json", tmp_path / "fix.json")
    fresh = comparison(f"{name}.fix")
    assert [c.title for c in saved.changes[:3]] == [c.title for c in fresh.changes[:3]]
    assert saved.step.difference_ms == pytest.approx(fresh.step.difference_ms, abs=1e-3)
    assert dump(saved.conditions) == dump(fresh.conditions)


@pytest.mark.parametrize("name", ["item_every_layer", "slow_dataloader", "tiny_mlp_infer"])
def test_recorders_can_be_mixed(name):
    result = ta.compare(
        reported(*ranks(f"kineto/{name}.base")), reported(recording(f"nsys/{name}.base"))
    )
    assert result.conditions[0].name == "recorder"
    compute = [c for c in result.changes if c.part == "compute"]
    # The longest template names are written in two ways.
    unmatched = sum(abs(c.difference_ms) for c in compute if c.kind in ("gone", "added"))
    assert unmatched < 0.02 * sum(c.a_ms for c in compute)
    assert sum(c.difference_ms for c in result.changes) == pytest.approx(
        result.step.difference_ms, abs=1e-6
    )
