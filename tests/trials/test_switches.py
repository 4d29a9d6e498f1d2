"""The table of switches: each row is whole, and knows which programs it changes."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.trials.build import GPU
from traceanalyzer.diagnosis.remedies import NAMES
from traceanalyzer.trials.libraries import place_of, written_switch
from traceanalyzer.trials.recording import candidates
from traceanalyzer.trials.switch import ProgramFacts
from traceanalyzer.trials.switches import BY_ID, SWITCHES


@pytest.mark.parametrize("switch", SWITCHES, ids=BY_ID)
def test_a_row_is_whole(switch):
    assert set(switch.remedies) <= set(NAMES)
    assert set(switch.excludes) <= set(BY_ID)
    assert bool(switch.apply) != bool(switch.environment) or switch.need(GPU) is not None
    if switch.apply:
        module, _, name = switch.apply.rpartition(".")
        assert callable(
            getattr(importlib.import_module(f"traceanalyzer.trials.apply.{module}"), name)
        )


def test_ids_are_unlike():
    assert len(BY_ID) == len(SWITCHES)


def test_a_program_gets_the_switches_that_change_it():
    found, left = candidates(GPU, None)
    names = {one.switch.id for one in found}
    assert {"loader_workers", "tf32", "compile", "fused_optimizer", "channels_last"} <= names
    why = {one.switch.id: one.why for one in left}
    assert why["bucket_size"] == "one rank"
    assert why["persistent_workers"] == "no DataLoader with workers was made"
    assert why["deferred_reads"] == "no .item() in the recording"
    assert why["no_recompute"] == "checkpoint is not called"
    assert why["no_gradients"] == "the program trains"
    assert {*names, *why} == set(BY_ID)


def test_a_program_gets_what_its_calls_and_its_recording_ask_for():
    costly = replace(
        GPU,
        calls={"checkpoint": 12, "empty_cache": 3},
        settings={"anomaly_detection": True},
        operators=frozenset({"aten::item"}),
    )
    names = {one.switch.id for one in candidates(costly, None)[0]}
    assert {"deferred_reads", "no_recompute", "keep_cache", "no_anomaly_detection"} <= names
    served = replace(GPU, backwards_per_step=0.0, settings={"grad": True})
    assert "no_gradients" in {one.switch.id for one in candidates(served, None)[0]}


def test_a_program_on_the_cpu_gets_those_of_a_cpu():
    found, _ = candidates(replace(GPU, gpu=False), None)
    names = {one.switch.id for one in found}
    assert {"loader_workers", "compile", "cpu_threads"} <= names
    assert not {"tf32", "pinned_memory", "channels_last", "compile_graphs"} & names


def test_what_the_user_leaves_out_is_left_out():
    found, _ = candidates(GPU, None, only=["compile", "tf32"], without=["tf32"])
    assert [one.switch.id for one in found] == ["compile"]


def _report(bottleneck, *recommendations, phases=()):
    return SimpleNamespace(
        summary=SimpleNamespace(step_ms=10.0, bottleneck=bottleneck),
        recommendations=[
            SimpleNamespace(remedy=remedy, predicted_step_ms=ms, low_ms=None, high_ms=None)
            for remedy, ms in recommendations
        ],
        tables={"phases": [SimpleNamespace(**row) for row in phases]},
    )


def _ids(report):
    return [one.switch.id for one in candidates(GPU, report)[0]]


def test_what_is_promised_most_is_tried_first():
    assert _ids(_report("compute", ("tf32", 4.0), ("channels_last", 6.0)))[:2] == [
        "tf32",
        "channels_last",
    ]


def test_what_is_against_the_verdict_comes_before_a_small_promise():
    ids = _ids(_report("launch", ("pinned_memory", 9.5), ("cuda_graph", None)))
    assert ids.index("compile_graphs") < ids.index("pinned_memory") < ids.index("tf32")


def test_what_the_program_is_seen_to_spend_on_comes_first_without_a_promise():
    costly = replace(GPU, calls={"checkpoint": 12}, settings={"anomaly_detection": True})
    ids = [one.switch.id for one in candidates(costly, None)[0]]
    assert ids[:2] == ["no_recompute", "no_anomaly_detection"]


def test_a_stream_that_does_not_share_itself_gets_no_workers():
    stream = replace(GPU, loaders=[{"num_workers": 0, "streams": True}])
    why = {one.switch.id: one.why for one in candidates(stream, None)[1]}
    assert why["loader_workers"] == (
        "its IterableDataset does not ask get_worker_info(): each worker would read all"
    )
    sharing = replace(stream, calls={"get_worker_info": 1})
    assert "loader_workers" in {one.switch.id for one in candidates(sharing, None)[0]}


def test_a_graph_of_the_model_leaves_the_optimizers_idle_time():
    phases = (
        {"role": "optimizer", "depth": 0, "unprofiled_idle_ms": 4.0},
        {"role": "optimizer", "depth": 1, "unprofiled_idle_ms": 3.0},
        {"role": "forward", "depth": 0, "unprofiled_idle_ms": 2.0},
    )
    report = _report("launch", ("cuda_graph", 3.0), ("fused_optimizer", 5.0), phases=phases)
    promised = {one.switch.id: one.promise for one in candidates(GPU, report)[0]}
    assert promised["compile_graphs"].step_ms == 7.0
    assert promised["fused_optimizer"].step_ms == 5.0


def test_nothing_is_known_of_a_program_without_facts():
    assert all(one.switch.id == "" for one in candidates(ProgramFacts(), None)[0])


def test_workers_are_not_tried_where_loading_takes_next_to_nothing():
    loading = {"step_ms": 10.0, "loading_ms": 0.02, "cpu_ms": 5.0, "loading_cpu_ms": 0.02}
    why = {one.switch.id: one.why for one in candidates(replace(GPU, loading=loading), None)[1]}
    assert why["loader_workers"] == "loading takes 0.2 % of the step"


def test_where_a_library_runs_the_loop_its_arguments_are_written():
    trainer = replace(
        GPU,
        places={"loader": "train.py:30", "library_arguments": "train.py:12", "optimizer": "x.py:3"},
        libraries={"loader": "transformers.trainer", "backward": "transformers.trainer"},
    )
    workers = BY_ID["loader_workers"]
    written = "TrainingArguments(dataloader_num_workers=8, dataloader_persistent_workers=True)"
    assert written_switch(workers, trainer) == written
    assert place_of(workers, trainer) == "train.py:12"
    assert written_switch(BY_ID["autocast_bf16"], trainer) == "TrainingArguments(bf16=True)"
    # an optimizer that the program made itself
    assert written_switch(BY_ID["fused_optimizer"], trainer) == BY_ID["fused_optimizer"].write
    assert place_of(BY_ID["fused_optimizer"], trainer) == "x.py:3"
