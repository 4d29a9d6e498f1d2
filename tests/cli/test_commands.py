"""What each command prints, where, and with which status it ends."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.kineto_builder import KinetoTrace
from tests.recorded import ROOT
from tests.report.reports import known
from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.cli import cli
from traceanalyzer.cli.commands import COMMANDS, OLD
from traceanalyzer.diagnosis.part_of_run import Selection
from traceanalyzer.report.table_entries import BY_COMMAND
from traceanalyzer.report.table_entries.kinds import RowFilter
from traceanalyzer.trace import Failure

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "gpu" / "sync_bound.json.gz"


BESIDES = {
    "iterations": ("server", "phases", "decode_fit", "profiler_stretch", "outlook", "speculation")
}
"""What the document of a table has besides its rows."""


@pytest.mark.parametrize("name", BY_COMMAND)
def test_a_table_as_json_has_its_name(asked, run, name):
    status, out, err = run("show", name, "trace.json", "--format", "json")
    assert (status, err) == (0, "")
    assert [key for key in json.loads(out) if key not in BESIDES.get(name, ())] == [name]
    assert len(json.loads(out)[name]) == len(asked.rows[name])


@pytest.mark.parametrize("name", BY_COMMAND)
def test_a_table_as_csv_has_the_fields_of_its_rows_even_if_empty(asked, run, name):
    fields = run("show", name, "trace.json", "--format", "csv")[1].splitlines()[0]
    assert list(csv.DictReader(io.StringIO(fields))) == []
    asked.rows[name] = []
    assert run("show", name, "trace.json", "--format", "csv") == (0, fields + "\n", "")


@pytest.mark.parametrize("name", BY_COMMAND)
@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_a_table_for_people_has_its_rows(asked, run, name, form):
    status, out, _ = run("show", name, "trace.json", "--format", form)
    assert status == 0
    assert len(out.splitlines()) > 1
    assert "\x1b" not in out


def test_gaps_follow_the_contract(asked, run):
    gap = json.loads(run("gaps", "trace.json", "--format", "json")[1])["gaps"][0]
    assert list(gap) == ["rank", "device", "start_ns", "duration_ns", "step", "cause", "detail"]


def test_options_narrow_a_table(asked, run):
    options = ("--rank", 1, "--device", 2, "--step", 3, "--top", 4, "--min-us", 5.5)
    assert run("gaps", "a.json", "b.json", *options)[0] == 0
    assert asked.paths == [("a.json", "b.json")]
    assert asked.narrow.pop("knowledge") is None
    assert asked.narrow == {
        "selection": Selection(rank=1, device=2, step=3),
        "wanted": RowFilter(4, 5.5),
    }


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("terminal", "SYNC-BOUND (clear)"),
        ("markdown", "## Summary\n"),
        ("json", '{\n  "schema_version"'),
    ],
)
def test_analyze_prints_the_report(asked, run, form, begins):
    status, out, err = run("analyze", "trace.json", "--format", form)
    assert (status, err) == (0, "")
    assert out.startswith(begins)


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [(".md", "## Summary"), (".json", "{"), (".txt", "Summary\n"), ("", "Summary\n")],
)
def test_the_suffix_of_the_file_tells_the_format(asked, run, tmp_path, suffix, begins):
    file = tmp_path / f"report{suffix}"
    assert run("analyze", "trace.json", "-o", file) == (0, "", "")
    assert file.read_text(encoding="utf-8").startswith(begins)


def test_a_format_that_is_given_beats_the_suffix(asked, run, tmp_path):
    file = tmp_path / "report.md"
    assert run("show", "kernels", "trace.json", "-o", file, "--format", "csv")[0] == 0
    assert file.read_text(encoding="utf-8").startswith("rank,name,")


@pytest.mark.parametrize(
    "arguments",
    [("--format", "csv"), ("-o", "report.csv"), ("-o", "report.xyz"), ("--redact-name", "(")],
)
def test_what_analyze_cannot_do_is_a_usage_error(asked, run, arguments):
    status, out, err = run("analyze", "trace.json", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("traceanalyzer: error: ")
    assert err.endswith("Try: traceanalyzer analyze --help\n")
    assert asked.paths == []


def test_the_recording_is_not_overwritten(asked, run, tmp_path):
    recording = tmp_path / "trace.json"
    recording.write_text("{}")
    status, _, err = run("analyze", recording, "-o", tmp_path / "." / "trace.json")
    assert status == 2
    assert "would overwrite what it is made from" in err
    assert recording.read_text() == "{}"


def test_a_recording_is_not_overwritten_under_another_name_or_in_its_folder(asked, run, tmp_path):
    recording = KinetoTrace().write(tmp_path / "rank0.json")
    (tmp_path / "link").hardlink_to(recording)
    (tmp_path / "report.md").write_text("the report of before")
    for named, file in (
        (recording, "link"),
        (tmp_path, "rank0.json"),
        (tmp_path / "rank*.json", "rank0.json"),
    ):
        status, out, err = run("ops", named, "--format", "csv", "-o", tmp_path / file)
        assert (status, out) == (2, "")
        assert "would overwrite what it is made from" in err
    assert run("analyze", tmp_path, "-o", tmp_path / "report.md")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("whatif", "--bucket-mb", "nan"),
        ("whatif", "--bucket-mb", "inf"),
        ("whatif", "--bucket-mb", "1e-9"),
        ("whatif", "--speedup", "mm=nan"),
        ("whatif", "--speedup", "mm=inf"),
        ("whatif", "--speedup", "mm=1e-300"),
        ("gaps", "--min-us", "nan"),
    ],
)
def test_figures_without_sense_are_usage_errors(asked, run, arguments):
    status, out, err = run(*arguments, "trace.json")
    assert (status, out) == (2, "")
    assert arguments[1] in err
    assert asked.paths == []


def test_redaction(asked, run):
    out = run("analyze", "trace.json", "--format", "json", "--redact")[1]
    assert "alice" not in out
    assert "sm90_xmma" in out
    out = run("analyze", "trace.json", "--format", "json", "--redact-name", "xmma")[1]
    assert "alice" not in out
    assert "sm90_xmma" not in out
    assert "kernel-1" in out


def test_markdown_of_a_given_length(asked, run):
    out = run("analyze", "t.json", "--format", "markdown", "--max-chars", 5000)[1]
    assert len(out) <= 5000
    assert "Left out to fit 5,000 characters" in out
    assert run("analyze", "t.json", "--max-chars", 5000)[0] == 2
    assert run("analyze", "t.json", "--format", "markdown", "--max-chars", 100)[0] == 2


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "terminal"])
def test_redaction_of_a_table(asked, run, form):
    row = replace(
        asked.rows["syncs"][0],
        op="AcmeModel > aten::item",
        python="/home/alice/acme/train.py(3): step",
    )
    asked.rows["syncs"] = [row]
    assert "alice" in run("syncs", "t.json", "--format", form)[1]
    out = run("syncs", "t.json", "--format", form, "--redact")[1]
    assert "alice" not in out
    assert "train.py" in out
    assert "AcmeModel" in out
    out = run("syncs", "t.json", "--format", form, "--redact-name", "(?i)acme")[1]
    assert "acme" not in out.lower()
    assert "name-1 > aten::item" in out


@pytest.mark.parametrize("name", BY_COMMAND)
def test_every_table_can_be_redacted(asked, run, name):
    assert run(name, "t.json", "--redact", "--redact-name", "gemm")[0] == 0


def test_a_kernel_has_one_alias_for_both_of_its_names(asked, run):
    out = run("kernels", "t.json", "--format", "json", "--redact-name", "gemm", "--top", 1)[1]
    assert {(row["name"], row["full_name"]) for row in json.loads(out)["kernels"]} >= {
        ("kernel-1", "kernel-1")
    }


def test_an_input_that_cannot_be_read_is_a_warning_beside_the_result(asked, run):
    asked.failures = (Failure("rank3.json", "holds no\nevent"),)
    status, out, err = run("show", "kernels", "runs", "--format", "json")
    assert status == 0
    assert json.loads(out)
    assert err == "traceanalyzer: warning: rank3.json could not be read: holds no event\n"


def test_an_error_is_one_line_and_status_1(asked, run, monkeypatch):
    def fail(*_, **__):
        raise EmptyRecordingError("trace.json: no\nGPU work; record again")

    monkeypatch.setattr("traceanalyzer.ingest.load", fail)
    assert run("analyze", "x.json") == (
        1,
        "",
        "traceanalyzer: error: trace.json: no GPU work; record again\n",
    )


@pytest.mark.parametrize("command", [("analyze",), ("show", "kernels")], ids=" ".join)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(asked, run, tmp_path, command):
    status, out, err = run(*command, "trace.json", "-o", tmp_path / "nowhere" / "report.md")
    assert (status, out) == (1, "")
    assert err.startswith("traceanalyzer: error: cannot write ")
    assert err.count("\n") == 1
    assert asked.paths == []


def test_an_operating_system_error_is_one_line(asked, run, monkeypatch):
    def fail(*_, **__):
        raise PermissionError(13, "Permission denied", "trace.json")

    monkeypatch.setattr("traceanalyzer.ingest.load", fail)
    assert run("show", "ops", "trace.json") == (
        1,
        "",
        "traceanalyzer: error: trace.json: Permission denied\n",
    )


def test_an_interruption_is_quiet(asked, run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("traceanalyzer.ingest.load", interrupt)
    status, out, err = run("analyze", "trace.json")
    assert (status, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize(
    "arguments",
    [(), ("nonsense",), ("gaps",), ("gaps", "x", "--top", "0"), ("gaps", "x", "--rank", "-1")],
)
def test_usage_errors(asked, run, arguments):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("traceanalyzer: error: ") if arguments else "Usage: traceanalyzer" in err


LEAVES = [
    name for name in (*COMMANDS, *OLD) if not isinstance(cli.get_command(None, name), click.Group)
]


@pytest.mark.parametrize("name", LEAVES)
def test_help_says_what_a_command_does_shows_an_example_and_what_comes_out(run, name):
    status, out, _ = run(name, "--help")
    assert status == 0
    assert "\n    traceanalyzer " in out
    assert "Example" in out
    command = cli.get_command(None, name)
    summary, _, rest = command.help.partition("\n")
    assert summary.endswith(".")
    assert len(rest.split()) > 25
    assert len(command.get_short_help_str(80)) <= 60
    for option in command.params:
        assert option.param_type_name == "argument" or option.help, option.name


def test_the_list_of_commands_is_complete(run):
    out = run("--help")[1]
    listed = re.findall(r"^  ([a-z]+)  ", out.partition("Ask:\n")[2], re.MULTILINE)
    assert listed == list(COMMANDS)
    assert len(COMMANDS) <= 14
    assert "  traceanalyzer gaps " in out
    helped = {path.stem for path in (ROOT / "traceanalyzer/cli/help").iterdir()}
    assert helped == {
        *COMMANDS,
        *OLD,
        *(f"collect_{name}" for name in cli.get_command(None, "collect").commands),
    }


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_says_the_new_one_once_at_a_terminal(run, name, monkeypatch):
    assert run(name, "--help")[2] == ""
    monkeypatch.setattr("traceanalyzer.cli.io.stdout.is_terminal", lambda stream: True)
    status, _, err = run(name, "--help")
    assert status == 0
    assert err == f"traceanalyzer: `{name}` is now `{OLD[name]}`\n"
    assert run(name, "nothing.json", "-q")[2].count("is now") == 0


def test_help_of_analyze_is_short_and_all_of_it_there(run):
    short = run("analyze", "--help")[1]
    assert len(short.splitlines()) <= 60
    assert "--hardware" not in short
    assert "--hardware" in run("analyze", "--help-all")[1]


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), ["collect", "torch"], ["show", "gaps"]]
)
def test_all_of_the_help_is_to_be_had_of_every_command(run, command):
    status, out, _ = run(*command, "--help-all")
    assert status == 0
    assert out.startswith("Usage: traceanalyzer")
    assert len(out) >= len(run(*command, "--help")[1])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run, shell):
    status, out, _ = run("doctor", "completion", shell)
    assert status == 0
    assert "_TRACEANALYZER_COMPLETE" in out


def test_analyze_writes_a_page(run, tmp_path):
    file = tmp_path / "report.html"
    assert run("analyze", SAMPLE, "-o", file, "--redact") == (0, "", "")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "sync-bound" in text
    assert 'id="timeline-data"' in text
    assert str(SAMPLE) not in text
    assert SAMPLE.name not in text


def test_names_are_hidden_on_the_timeline_too(run, tmp_path):
    file = tmp_path / "report.htm"
    assert run("analyze", SAMPLE, "-o", file, "--redact-name", "aten::")[0] == 0
    assert "aten::" not in file.read_text(encoding="utf-8")


def test_a_page_is_not_written_to_a_terminal(run, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    status, out, err = run("analyze", "trace.json", "--format", "html")
    assert (status, out) == (2, "")
    assert "-o FILE" in err


def test_a_scenario_of_ones_own_is_redacted(asked, run, monkeypatch):
    from traceanalyzer.replay.prediction import Prediction, WhatIf

    own = Prediction("AcmeModel=2", 1.0, 1.0, 1.0, 2.0, "AcmeModel 2 times faster")
    result = known(WhatIf, scenarios=[own], fidelity_error=0.0)
    monkeypatch.setattr(
        "traceanalyzer.report.predictions.predicted.kept_predictions", lambda *_: result
    )
    out = run(
        "whatif", "t.json", "--speedup", "AcmeModel=2", "--redact-name", "Acme", "--format", "json"
    )[1]
    assert "Acme" not in out
    assert json.loads(out)["scenarios"][0]["basis"] == "name-2 2 times faster"


def test_gaps_begin_with_their_sum_and_come_by_worth(run):
    def starts(*options):
        status, out, err = run(
            "gaps", SAMPLE, "--format", "markdown", "--columns", "duration_ns", *options
        )
        assert (status, err) == (0, "")
        return [
            float(line.strip("| "))
            for line in out.splitlines()
            if re.fullmatch(r"\| *[\d.,]+ *\|", line)
        ]

    assert starts() == sorted(starts(), reverse=True)
    assert starts("--by", "time") != starts()
    assert sorted(starts("--by", "time"), reverse=True) == starts()
    first = run("gaps", SAMPLE)[1].splitlines()[0]
    assert re.match(r"[\d,.]+ gaps a step, [\d.]+ .s idle as recorded: sync \d+", first)


def test_a_screen_has_no_steps_of_the_profiler_among_operators(run):
    sample = Path(__file__).parents[2] / "sample_traces" / "changing_shapes"
    status, shown, _ = run("show", "ops", sample)
    assert status == 0
    assert "aten::" in shown
    assert "ProfilerStep" not in shown
    assert "--all has the rest" in shown
    for option in ("--all", "--format=json"):
        assert "ProfilerStep*" in run("show", "ops", sample, option)[1], option
