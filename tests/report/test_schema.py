"""The schemas are schemas, hold the promised names, and what the commands print follows them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.report.reports import empty, full
from traceanalyzer.cli import cli
from traceanalyzer.cli.tools.schema import DOCUMENTS
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.json import render_json
from traceanalyzer.report.table_entries import BY_COMMAND

SAMPLES = Path(__file__).parents[2] / "sample_traces"
RUNS = (
    "straggler",
    "sync_bound_stacks",
    "timing_input_bound",
    "nsys_cuda_graph",
    "tensor_parallel",
)
STATISTICS = {"count", "mean", "median", "std", "min", "max", "p95", "p99"}
PROMISED = {
    "schema_version": None,
    "tool": {"name", "version"},
    "inputs": {
        "path": None,
        "kind": None,
        "rank": None,
        "devices": {"id", "name"},
        "health": {"events", "skipped", "repaired", "lost", "clipped", "truncated", "notes"},
    },
    "summary": {"bottleneck", "confidence", "headline"},
    "metrics": {
        "step_time_ms": STATISTICS,
        "step_source": None,
        "unprofiled_step_time_ms": None,
        "kernels_per_step": None,
        "launches_per_step": None,
        "gpu_busy_share": None,
        "gpu_idle_share": None,
        "budget_ms": {"compute", "exposed_communication", "exposed_copy", "idle"},
        "idle_ms": {"launch", "sync", "input", "host", "communication", "profiler", "other"},
        "communication": {"total_ms", "exposed_ms", "overlap_share"},
    },
    "devices": {
        "rank",
        "device",
        "name",
        "span_ms",
        "busy_ms",
        "idle_ms",
        "compute_ms",
        "communication_ms",
        "exposed_communication_ms",
        "copy_ms",
        "exposed_copy_ms",
        "kernels",
        "copies",
        "memsets",
        "gaps",
        "largest_gap_ms",
    },
    "findings": {
        "id": None,
        "class": None,
        "title": None,
        "severity": None,
        "headroom_ms": None,
        "evidence": {"metric", "value", "unit", "where"},
    },
    "recommendations": {"id", "class", "action", "predicted_step_ms", "predicted_speedup", "basis"},
}
"""Names that other programs were promised, as the report nests them."""


def printed(*arguments):
    result = CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def validator(document):
    schema = printed("schema", document)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def resolved(part, schema):
    """The object that a part of a schema describes, through references, lists and null."""
    if "$ref" in part:
        return resolved(schema["$defs"][part["$ref"].rsplit("/", 1)[1]], schema)
    if "items" in part:
        return resolved(part["items"], schema)
    for choice in part.get("anyOf", []):
        if "$ref" in choice or "items" in choice:
            return resolved(choice, schema)
    return part


def promised(names, part, schema):
    """Every promised name is there, is always printed, and says what it means."""
    found = resolved(part, schema)
    for name in names:
        assert name in found["properties"]
        assert name in found["required"]
        assert found["properties"][name]["description"]
        if isinstance(names, dict) and names[name]:
            promised(names[name], found["properties"][name], schema)


def test_the_report_has_the_promised_names():
    schema = printed("schema")
    promised(PROMISED, schema, schema)
    summary = resolved(schema["properties"]["summary"], schema)
    assert set(summary["properties"]["bottleneck"]["enum"]) == {
        "compute",
        "memory",
        "launch",
        "communication",
        "sync",
        "input",
        "host",
        "transfer",
        "inconclusive",
    }
    assert schema["properties"]["schema_version"]["const"] == 2


def test_gaps_and_whatif_have_the_promised_names():
    gaps = printed("schema", "gaps")
    whatif = printed("schema", "whatif")
    row = {"rank", "device", "start_ns", "duration_ns", "step", "cause", "detail"}
    assert set(resolved(gaps["properties"]["gaps"], gaps)["required"]) == row
    promised(
        {
            "recorded_step_ms": None,
            "replayed_step_ms": None,
            "unprofiled_step_ms": None,
            "scenarios": {"id", "step_ms", "speedup", "basis"},
        },
        whatif,
        whatif,
    )


def test_units_are_said():
    schema = printed("schema")
    budget = resolved(schema["$defs"]["Metrics"]["properties"]["budget_ms"], schema)
    assert budget["properties"]["idle"] == {
        "type": "number",
        "description": "time with no work of any kind on the device (ms)",
        "unit": "ms",
    }


@pytest.mark.parametrize("report", [full(), empty()], ids=["full", "empty"])
def test_a_report_follows_its_schema(report):
    validator("report").validate(json.loads(render_json(report)))


@pytest.mark.parametrize("sample", RUNS)
def test_reports_of_recordings_follow_their_schema(sample):
    validator("report").validate(printed("analyze", SAMPLES / sample, "--format", "json"))


@pytest.mark.parametrize("name", [*BY_COMMAND, "whatif"])
def test_what_the_commands_print_follows_their_schemas(name):
    check = validator(name)
    shows = {
        "syncs": "sync_bound",
        "copies": "transfer_bound",
        "phases": "launch_bound",
        "modules": "sync_bound_stacks",
        "shapes": "changing_shapes",
    }
    document = printed(name, SAMPLES / shows.get(name, "tensor_parallel"), "--format", "json")
    check.validate(document)
    assert all(document.values()) or name in (
        "counters",
        "iterations",
        "serving",
    )  # no sample has any


def test_a_comparison_and_a_history_follow_their_schemas(tmp_path):
    for _ in range(2):
        store_report(tmp_path / "runs.db", full(), tags={"branch": "main"})
    history = ("history", tmp_path / "runs.db", "--format", "json")
    validator("runs").validate(printed(*history))
    validator("metric").validate(printed(*history, "--metric", "step_time_ms"))
    pair = (SAMPLES / "sync_bound", SAMPLES / "sync_bound_stacks")
    validator("compare").validate(printed("compare", *pair, "--format", "json"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_in_a_schema_is_explained(document):
    schema = printed("schema", document)
    assert Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema)
    silent = [
        f"{kind}.{name}"
        for kind, part in schema["$defs"].items()
        for name, described in part["properties"].items()
        if "description" not in described
        and "$ref" not in described
        and not kind.startswith("Comparison")
    ]
    assert silent == []


def test_a_wrong_report_does_not_follow_it():
    check = validator("report")
    report = json.loads(render_json(full()))
    assert not check.is_valid(report | {"schema_version": 1})
    assert not check.is_valid(report | {"summary": report["summary"] | {"bottleneck": "slow"}})
    assert not check.is_valid({key: value for key, value in report.items() if key != "devices"})
    assert check.is_valid(report | {"added_later": 1})
