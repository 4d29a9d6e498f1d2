"""`compare` and `check` from the command line."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from tests.comparison.build import idle, part, report
from tests.recorded import ROOT
from traceanalyzer.cli import cli
from traceanalyzer.comparison.outline import FigureRow
from traceanalyzer.report.json import render_json

BASE = report(part("aten::mm", "gemm", 5), idle("sync", 5, "aten::item", "cudaStreamSynchronize"))
SLOW = report(part("aten::mm", "gemm", 5), idle("sync", 7, "aten::item", "cudaStreamSynchronize"))
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("main.json", BASE), ("run.json", SLOW)):
        (tmp_path / name).write_text(render_json(value), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("format_", "begins"),
    [
        ("terminal", "Slower: "),
        ("markdown", "## Summary"),
        ("json", "{"),
        ("csv", "change,part,a_ms"),
    ],
)
def test_compare_writes_each_format(folder, run, format_, begins):
    status, out, err = run("compare", "main.json", "run.json", "--format", format_)
    assert (status, err) == (0, "")
    assert out.startswith(begins)


def test_compare_names_what_changed(folder, run):
    _, out, _ = run("compare", "main.json", "run.json", "--format", "json")
    said = json.loads(out)
    assert said["changes"][0]["class"] == "sync"
    assert said["a"]["name"] == "main.json"


def test_compare_can_be_published(folder, run):
    name = "acme_secret_layer"
    reports = [report(part(name, "k", ms), idle("launch", 1, name)) for ms in (5, 9)]
    for file, value in zip(("a.json", "b.json"), reports, strict=True):
        (folder / file).write_text(render_json(value), encoding="utf-8")
    for format_ in ("terminal", "markdown", "json", "csv"):
        arguments = ("compare", str(folder / "a.json"), str(folder / "b.json"), "--format", format_)
        assert name in run(*arguments)[1]
        _, out, _ = run(*arguments, "--redact-name", "acme_.*")
        assert "acme" not in out
        assert str(folder) not in out
        assert "slower" in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["main.json", "nowhere.json"], 1, "nowhere.json"),
        (["main.json", "runs.db#7"], 1, "no such history"),
        (["main.json"], 2, "Missing argument 'B'"),
        (["main.json", "run.json", "-o", "main.json"], 2, "overwrite"),
        (["main.json", "run.json", "-o", "x.doc"], 2, "cannot tell the format"),
    ],
)
def test_compare_mistakes(folder, run, arguments, status, message):
    left, out, err = run("compare", *arguments)
    assert (left, out) == (status, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["run.json", "--max", "gpu_idle_share=0.99"], 0),
        (["run.json", "--max", "gpu_idle_share=0.01"], 3),
        (["run.json", "--baseline", "main.json", "--max", "step_time_ms.median=+3%"], 3),
        (["main.json", "--baseline", "main.json", "--max", "step_time_ms.median=+3%"], 0),
        (["run.json", "--min", "roofline.mfu=0.5"], 3),
        (["run.json", "--min", "roofline.mfu=0.5", "--allow-missing"], 0),
        (["run.json", "--max", "headroom_ms.sync=0.5"], 3),
        (["nowhere.json", "--max", "gpu_idle_share=0.5"], 1),
        (["run.json", "--policy", "nowhere.toml"], 1),
        (["run.json"], 2),
        (["run.json", "--max", "gpu_idle_share"], 2),
        (["run.json", "--max", "gpu_idel_share=0.5"], 2),
        (["run.json", "--max", "step_time_ms.median=+3%"], 2),
    ],
)
def test_check_tells_by_its_exit_status(folder, run, arguments, status):
    left, out, err = run("check", *arguments)
    assert left == status
    assert bool(out) is (status in (0, 3))
    assert "Traceback" not in err


@pytest.mark.parametrize("limit", [("--max", "summary.step_ms=0.5"), ("--strict",)])
def test_check_leaves_no_limit_out_beside_a_claim(folder, run, limit):
    status, out, err = run(
        "check", "run.json", "--baseline", "main.json", "--claim", "1.3x", *limit
    )
    assert (status, out) == (2, "")
    assert "--claim is a question of its own" in err


@pytest.mark.parametrize(
    ("file", "begins"),
    [
        ("a.xml", "<?xml"),
        ("a.md", "**FAIL: 1 of 2 limits"),
        ("a.json", "{"),
        ("a.txt", "FAIL: 1 of 2 limits"),
    ],
)
def test_check_writes_each_format(folder, run, file, begins):
    (folder / "policy.toml").write_text(
        '[max]\ngpu_idle_share = 0.01\nstep_time_ms.mean = "+50%"', encoding="utf-8"
    )
    status, out, _ = run(
        "check", "run.json", "--policy", "policy.toml", "--baseline", "main.json", "-o", file
    )
    assert (status, out) == (3, "")
    assert (folder / file).read_text(encoding="utf-8").startswith(begins)


def test_options_go_before_the_policy(folder, run):
    (folder / "policy.toml").write_text("[max]\ngpu_idle_share = 0.01", encoding="utf-8")
    assert (
        run("check", "run.json", "--policy", "policy.toml", "--max", "gpu_idle_share=0.99")[0] == 0
    )


def documented(page):
    """Commands in the page's code blocks, continued lines put together, a step's exit status left
    out."""
    text = (DOCS / page).read_text(encoding="utf-8").replace("\\\n", " ")
    return [
        line.strip().removeprefix("run: ")
        for line in text.splitlines()
        if re.match(r"\s*(run: )?traceanalyzer ", line)
    ]


@pytest.mark.parametrize(
    "command", [c for page in ("ci.md", "compare.md") for c in documented(page)]
)
def test_documented_commands_run(folder, run, command):
    """With this folder's reports in place of the files and runs that the page names."""
    words = shlex.split(command.partition(" #")[0].partition(" >")[0].partition(" ||")[0])[1:]
    if words[0] not in ("compare", "check"):
        parse(words)
        return
    (folder / "policy.toml").write_text(policy_of_the_page(), encoding="utf-8")
    known = {"--max", "--min", "--format", "--policy"}
    replaced = [
        "main.json"
        if re.search(r"\.(json|gz|sqlite|db)\b", w) and words[i] not in known and words[i] != "-o"
        else w
        for i, w in enumerate(words[1:])
    ]
    status, _, err = run(words[0], *replaced)
    assert status in (0, 3), err


def parse(words):
    """Whether a command takes these arguments, without running it."""
    command = cli
    context = click.Context(cli, **cli.context_settings)
    while isinstance(command, click.Group):
        command = command.get_command(context, words[0])
        words = words[1:]
    # with its parent, whose settings a command keeps from the first time on
    command.make_context("command", words, parent=context)


def policy_of_the_page():
    found = re.search(r"```toml\n(.*?)```", (DOCS / "ci.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_a_breach_is_an_annotation(folder, run):
    limits = ("--max", "budget_ms.idle=5", "--max", "step_time_ms.mean=1000")
    status, out, err = run("check", "run.json", *limits, "--format", "github")
    assert (status, err) == (3, "")
    lines = out.splitlines()
    assert lines[0].startswith("::error title=budget_ms.idle::budget_ms.idle is ")
    assert lines[0].endswith("BREACHED")
    assert not any("step_time" in line for line in lines if line.startswith("::error"))
    assert lines[-1].startswith("::notice title=traceanalyzer::FAIL: 1 of 2 limits breached")


def test_an_annotation_ends_where_its_text_ends(folder, run):
    out = run("check", "run.json", "--max", "gpu_idle_share=1%", "--format", "github")[1]
    assert "%25" in out
    assert all(line.startswith("::") for line in out.splitlines())


def test_a_baseline_alone_is_told_how_to_be_used(run):
    sample = str(ROOT / "sample_traces" / "sync_bound")
    status, _, err = run("check", sample, "--baseline", sample)
    assert status == 2
    assert "summary.step_ms=+3%" in err
    assert "give --max, --min or --policy" in run("check", sample)[2]


def test_a_difference_of_shares_is_in_points():
    assert FigureRow.of("gpu_busy_share", 0.4, 0.5, "share").difference == "+10.0 points"
    assert FigureRow.of("syncs.calls", 16, 1, "").difference == "-15"


@pytest.mark.parametrize("claim", ["0x", "-1x", "1 to 100 ms", "much better"])
def test_a_claim_that_says_nothing_is_a_mistake(folder, run, claim):
    status, out, err = run("check", "run.json", "--baseline", "main.json", "--claim", claim)
    assert (status, out) == (2, "")
    assert "--claim: " in err


def test_a_claim_that_cannot_be_told_fails_unless_allowed(folder, run):
    asked = ("check", "run.json", "--baseline", "main.json", "--claim", "faster")
    status, out, _ = run(*asked)
    assert (status, out.split(":")[0]) == (3, "Cannot tell")
    assert run(*asked, "--allow-missing")[0] == 0


def test_figures_of_the_step_have_short_names(folder, run):
    for short, name in (
        ("idle", "summary.idle_share"),
        ("gpu_idle", "summary.idle_share"),
        ("step", "summary.step_ms"),
        ("mfu", "utilisation.mfu"),
    ):
        out = run("check", "run.json", "--max", f"{short}=0.5", "--allow-missing")[1]
        assert name in out, short
