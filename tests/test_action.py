"""The GitHub Action without GitHub: its script in the environment of `action.yml`, with a stand-in
for gh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.github_stand_in import FINE, StandIn, comments

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_traces"
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
SCRIPT = (ROOT / "action" / "run.sh").read_text(encoding="utf-8")
PULL_REQUEST = "https://github.com/o/r/pull/7"

pytestmark = pytest.mark.skipif(
    os.name == "nt" or shutil.which("bash") is None, reason="needs bash"
)


class Job:
    """A job of GitHub Actions in a folder."""

    def __init__(self, folder):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        self.gh = StandIn(programs)
        (programs / "traceanalyzer").write_text(
            f'#!/bin/sh\nexec {sys.executable} -m traceanalyzer "$@"\n'
        )
        (programs / "traceanalyzer").chmod(0o755)
        self.path = f"{programs}:{os.environ['PATH']}"

    def run(self, *arguments, **inputs):
        given = dict.fromkeys(re.findall(r"^ {8}([A-Z_]+): ", ACTION, re.MULTILINE), "")
        given |= {"COMMENT": "true", "FAIL": "true", "OUTPUT": "out"} | inputs
        files = {name: str(self.folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        environment = {**os.environ, **given, **files, "PATH": self.path}
        return subprocess.run(
            [str(shutil.which("bash")), str(ROOT / "action" / "run.sh"), *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def said(self, name):
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_every_input_reaches_the_script_and_by_the_environment_alone():
    inputs = re.findall(
        r"^  ([a-z-]+):$", ACTION.partition("inputs:")[2].partition("outputs:")[0], re.MULTILINE
    )
    assert len(inputs) == 11
    for name in inputs:
        assert f"${{{{ inputs.{name} }}}}" in ACTION
    # An expression inside `run:` would be code that a pull request can write.
    for block in re.findall(r"run: (\|.*?(?=\n {4}-)|[^|\n].*)", ACTION, re.DOTALL):
        assert "${{" not in block.partition("\n      env:")[0]
    for name in re.findall(r"^ {8}([A-Z_]+): ", ACTION, re.MULTILINE):
        assert name == "GH_TOKEN" or f"${name}" in SCRIPT or f"${{{name}" in SCRIPT, name


def test_a_first_run_has_no_baseline(job):
    done = job.run(
        TRACE=str(SAMPLES / "sync_bound"), BASELINE="main.json", AT_MOST="step_time_ms.median=+3%"
    )
    assert done.returncode == 0, done.stderr
    assert "no baseline yet" in done.stdout
    assert "limits against a baseline are not checked" in done.stdout
    assert "passed=true" in job.said("GITHUB_OUTPUT")
    assert job.said("GITHUB_STEP_SUMMARY").startswith("## Summary")
    assert (job.folder / "out" / "report.html").stat().st_size > 100_000
    assert not (job.folder / "bin" / "calls.jsonl").exists()


def test_a_pull_request_is_compared_checked_and_gets_one_comment(job):
    job.gh.answers["api"] = comments((True, "<!-- traceanalyzer: gpu -->\nold"))
    job.gh.install()
    done = job.run(
        TRACE=str(SAMPLES / "sync_fixed"),
        BASELINE=str(SAMPLES / "sync_bound"),
        AT_MOST="step_time_ms.median=+3%\ngpu_idle_share=1%\n",
        NAME="gpu",
        PULL_REQUEST=PULL_REQUEST,
    )
    assert done.returncode == 3, done.stderr
    assert "::error title=gpu_idle_share::" in done.stdout
    assert "::error title=step_time" not in done.stdout
    assert "passed=false" in job.said("GITHUB_OUTPUT")
    assert job.said("GITHUB_STEP_SUMMARY").startswith("## Summary")
    assert "<failure" in (job.folder / "out" / "check.xml").read_text(encoding="utf-8")
    find, edit = job.gh.calls()
    assert "number=7" in find["arguments"]
    assert "id=IC_0" in edit["arguments"]
    assert edit["body"].startswith("<!-- traceanalyzer: gpu -->\n## Summary")
    assert str(SAMPLES) not in edit["body"]


def test_a_breach_need_not_fail_and_a_refused_comment_does_not(job):
    job.gh.answers["api"] = FINE | {"err": "Resource not accessible by integration", "status": 1}
    job.gh.install()
    done = job.run(
        TRACE=str(SAMPLES / "sync_bound"),
        AT_MOST="gpu_idle_share=1%",
        FAIL="false",
        PULL_REQUEST=PULL_REQUEST,
    )
    assert done.returncode == 0
    assert "::warning::no comment was made" in done.stdout
    assert "passed=false" in job.said("GITHUB_OUTPUT")


def test_what_cannot_be_analyzed_fails_the_job(job):
    assert job.run(TRACE="no-such-trace.json").returncode == 1
    done = job.run(TRACE=str(SAMPLES / "sync_bound"), AT_MOST="nonsense=1")
    assert done.returncode == 2
    assert "nonsense" in done.stderr


def test_text_of_inputs_is_never_run(job):
    job.run(
        TRACE="$(touch hacked); `touch hacked`", BASELINE="; touch hacked", NAME="$(touch hacked)"
    )
    assert not (job.folder / "hacked").exists()


def test_a_file_called_like_an_option_is_a_file_and_a_line_break_cuts_no_name(job):
    for rank, name in enumerate(("--store=stolen.db.json.gz", "two\nlines.json.gz")):
        sample = SAMPLES / "straggler" / f"trace.rank{rank}.json.gz"
        shutil.copy(sample, job.folder / name)
    done = job.run(TRACE="*.json.gz", COMMENT="false")
    assert done.returncode == 0, done.stderr
    assert '"rank": 1' in (job.folder / "out" / "report.json").read_text(encoding="utf-8")
    assert [path.name for path in job.folder.glob("*.db*")] == ["--store=stolen.db.json.gz"]


def test_ranks_are_given_by_a_pattern_and_pages_are_linked_from_the_comment(job):
    for rank in (0, 1):
        shutil.copy(
            SAMPLES / "straggler" / f"trace.rank{rank}.json.gz", job.folder / f"rank{rank}.json.gz"
        )
    assert job.run(TRACE="rank*.json.gz", BASELINE=str(SAMPLES / "straggler")).returncode == 0
    assert (job.folder / "out" / "compare.html").stat().st_size > 50_000
    assert '"rank": 1' in (job.folder / "out" / "report.json").read_text(encoding="utf-8")
    job.gh.answers["api"] = comments((True, "<!-- traceanalyzer -->\nold"))
    job.gh.install()
    given = {
        "COMMENT": "true",
        "OUTPUT": "out",
        "PULL_REQUEST": PULL_REQUEST,
        "PAGES": "https://github.com/o/r/pages/1",
    }
    done = job.run("link", **given)
    assert done.returncode == 0, done.stderr
    _, edit = job.gh.calls()
    assert (
        edit["body"].rstrip().endswith("[The pages of this report](https://github.com/o/r/pages/1)")
    )
