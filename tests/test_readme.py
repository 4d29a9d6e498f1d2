"""What the README says can be typed, can be typed."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.nsys_builder import small_run
from traceanalyzer.cli import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = sorted({line.split("#")[0].strip() for line in README.splitlines() if line.startswith("traceanalyzer ")})
SCRIPTS = re.findall(r"^bash (\S+)", README, re.MULTILINE)
CAPTURE = ROOT / "sample_traces" / "sync_bound"
SAMPLE = ROOT / "tests" / "data" / "gpu" / "sync_bound.json.gz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the README's examples name."""
    folder = tmp_path_factory.mktemp("recordings")
    for name in ("trace.json.gz", "rank0.json.gz", "rank1.json.gz"):
        shutil.copy(SAMPLE, folder / name)
    (folder / "trace.json").write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    shutil.copytree(CAPTURE, folder / "capture-2026-01-01-120000")
    small_run("3.24.0").write(folder / "run.sqlite")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_runs(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    arguments = []
    for word in shlex.split(command)[1:]:
        arguments += sorted(p.name for p in folder.glob(word)) if "*" in word and "/" not in word else [word]
    if arguments[0] in ("collect", "doctor"):
        arguments = [*arguments[:2], "--help"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_there_are_commands_to_try() -> None:
    assert len(COMMANDS) >= 8


def test_the_readmes_scripts_are_there_and_can_be_run() -> None:
    assert SCRIPTS == ["sample_traces/try.sh", "tests/run.sh"]
    assert all((ROOT / script).stat().st_mode & stat.S_IXUSR for script in SCRIPTS)


def test_every_command_line_option_of_the_readme_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"`nsys .*?`", "", README)))
    known = {o for c in (cli.get_command(None, n) for n in cli.list_commands(None)) for p in c.params for o in p.opts}
    for group in (cli.get_command(None, "collect"),):
        known |= {o for c in getattr(group, "commands", {}).values() for p in c.params for o in p.opts}
    assert named - known - {"--help"} == set()
