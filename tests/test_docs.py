"""The documentation says what the program does: its commands run, the output it shows is theirs,
its definitions are the code's, its links lead somewhere, and every finding has a page."""

from __future__ import annotations

import ast
import dataclasses
import gzip
import re
import shlex
import shutil
import stat
import tarfile
import typing
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from docs import generate
from tests.analyzed import remembering
from tests.fleet.build import write_job
from tests.nsys_builder import small_run
from tests.report.reports import full
from traceanalyzer.cli import cli
from traceanalyzer.cli.commands import COMMANDS, OLD
from traceanalyzer.diagnosis.memory import OOM
from traceanalyzer.diagnosis.pages import FindingPage, finding_page, finding_pages
from traceanalyzer.diagnosis.rules.device import GPU_BUSY, UNDERSIZED
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.json import render_json
from traceanalyzer.report.model import Metrics
from traceanalyzer.report.table_entries import BY_COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.diagnosis.selection import MeasuredRanks

ROOT = generate.ROOT
README = ROOT / "README.md"
RULES = ROOT / "traceanalyzer" / "diagnosis" / "rules"
SAMPLE = ROOT / "tests" / "data" / "gpu" / "sync_bound.json.gz"
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in generate.pages()}
WITH_OUTPUT = [name for name, text in PAGES.items() if "```console\n" in text]
WRITTEN = [name for name, text in PAGES.items() if generate.FILLED.search(text)]
TO_TYPE = {
    name: [
        line.split(" #")[0].strip()
        for block in re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.startswith("traceanalyzer ")
    ]
    for name, text in PAGES.items()
}
ONLY_HELP = ("collect", "doctor", "attach")
"""Commands that need a GPU host or write to the world: of these only `--help` is tried."""
COMPILE_FINDINGS = (
    "graph-break",
    "recompilation",
    "cudagraphs-skipped",
    "compile-cache",
    "autotune",
    "compile-failed",
    "ranks-compile-differently",
)
"""Ids of findings on torch.compile, which are no rules'."""
PIPELINE_FINDINGS = ("heavy-stage", "uneven-microbatches", "slow-operations")
"""Ids of findings on a log of a pipeline's operations, which are no rules' either."""
EXPLAINED = set(finding_pages())
MEMORY_FINDINGS = {
    *(f"oom-{verdict.replace('_', '-')}" for verdict in OOM),
    *re.findall(
        r'"(memory-[a-z-]+)"',
        (ROOT / "traceanalyzer/diagnosis/memory.py").read_text(encoding="utf-8"),
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that examples name."""
    folder = tmp_path
    for name in ("trace", "rank0", "rank1", "base", "fix", "base.rank0", "fix.rank0"):
        shutil.copy(SAMPLE, folder / f"{name}.json.gz")
    for name in ("main.json", "run.json"):
        (folder / name).write_text(render_json(full()), encoding="utf-8")
    policy = re.search(r"^```toml\n(.*?)^```", PAGES["docs/ci.md"], re.MULTILINE | re.DOTALL)
    (folder / "policy.toml").write_text(policy[1] if policy else "", encoding="utf-8")
    (folder / "trace.json").write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    shutil.copytree(ROOT / "sample_traces" / "sync_bound", folder / "capture-2026-01-01-120000")
    (folder / "sample_traces").symlink_to(ROOT / "sample_traces")
    shutil.copy(ROOT / "tests" / "data" / "ncu" / "raw.csv", folder / "report.csv")
    for name in ("snapshot", "before", "after"):
        data = (ROOT / "tests" / "data" / "memory" / "kv_cat.base.snapshot.pickle.gz").read_bytes()
        (folder / f"{name}.pickle").write_bytes(gzip.decompress(data))
    with tarfile.open(ROOT / "tests" / "data" / "hangs" / "hangs.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    (folder / "nvidia" / "lock_gil_1st").rename(folder / "dumps")
    write_job(folder / "traces", {2: 300})
    small_run("3.24.0").write(folder / "run.sqlite")
    (folder / "steps.jsonl").write_text(
        "".join(f'{{"step": {i}, "step_ms": 100.5}}\n' for i in range(30))
    )
    (folder / "train.log").write_text(
        "".join(f"step {i} took {100 + i % 3}.5 ms\n" for i in range(30))
    )
    store_report(folder / "runs.db", full(), tags={"branch": "main"})
    return folder


@pytest.fixture(scope="module")
def made_of_examples() -> dict[object, MeasuredRanks]:
    """What was measured of the files that examples name: the same for each page."""
    return {}


@pytest.mark.parametrize("name", [name for name, commands in TO_TYPE.items() if commands])
def test_what_can_be_typed_can_be_typed(
    name: str,
    folder: Path,
    made_of_examples: dict[object, MeasuredRanks],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    remembering(monkeypatch, made_of_examples)
    for command in TO_TYPE[name]:
        arguments = []
        for word in shlex.split(command)[1:]:
            arguments += (
                sorted(p.name for p in folder.glob(word))
                if "*" in word and "/" not in word
                else [word]
            )
        if arguments[0] in ONLY_HELP:
            arguments = [
                *(word for word in arguments[:2] if re.fullmatch("[a-z]+", word)),
                "--help",
            ]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code in (0, generate.BREACH), f"{command}\n{result.output}"


def test_there_are_commands_to_type() -> None:
    assert len(TO_TYPE["README.md"]) >= 5


@pytest.fixture(scope="module")
def made() -> dict[object, MeasuredRanks]:
    """What was measured of the repository's recordings."""
    return {}


@pytest.mark.parametrize("name", WITH_OUTPUT)
def test_output_that_is_shown_is_what_the_command_prints(
    name: str, made: dict[object, MeasuredRanks], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering(monkeypatch, made)
    with generate.folder() as here:
        for block in generate.CONSOLE.findall(PAGES[name]):
            for command, shown in generate.commands_shown(block):
                printed = generate.output(command, here, generate.WIDTH)
                assert generate.missing(shown, printed) == [], (
                    f"{command}: run python -m docs.generate"
                )


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_code_says_is_up_to_date(
    name: str, made: dict[object, MeasuredRanks], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembering(monkeypatch, made)
    assert generate.filled(PAGES[name]) == PAGES[name], "run python -m docs.generate"


def test_every_option_that_is_named_exists() -> None:
    ours = ("--", "traceanalyzer ", *(f"{name} " for name in (*COMMANDS, *OLD)))
    spans = [
        span
        for text in PAGES.values()
        for span in re.findall(r"(?<!`)`([^`\n]+)`", text)
        if span.startswith(ours)
    ]
    named = {
        option
        for span in spans
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", span.split(" -- ")[0])
    }
    known = {
        option
        for command in _commands(cli)
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert named - known - {"--help", "--help-all"} == set()


def _commands(group: click.Command) -> Iterator[click.Command]:
    """A command and those below it."""
    yield group
    if not isinstance(group, click.Group):
        return
    context = click.Context(group)
    hidden = OLD if group is cli else ()
    for name in (*group.list_commands(context), *hidden):
        inner = group.get_command(context, name)
        if inner is not None:
            yield from _commands(inner)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    here = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        path, _, anchor = target.partition("#")
        if not target.startswith("http"):
            page = (here / path).resolve() if path else ROOT / name
            assert page.exists(), target
            assert not anchor or anchor in _anchors(page.read_text(encoding="utf-8")), target
    for path in re.findall(r"`(docs/[\w./-]+)`", PAGES[name]):
        assert (ROOT / path).exists(), path


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_in_the_index() -> None:
    index = PAGES["docs/README.md"]
    pages = {Path(name).relative_to("docs") for name in PAGES if name.startswith("docs/")} - {
        Path("README.md")
    }
    assert {str(page): index.count(f"({page})") for page in pages} == {
        str(page): 1 for page in pages
    }


def test_every_group_of_figures_is_defined() -> None:
    hints = typing.get_type_hints(Metrics).values()
    groups = [
        part for hint in hints for part in typing.get_args(hint) if dataclasses.is_dataclass(part)
    ]
    text = PAGES["docs/report.md"]
    assert [
        g.__name__ for g in groups if isinstance(g, type) and f".{g.__name__} -->" not in text
    ] == []


def test_the_readmes_scripts_are_there_and_can_be_run() -> None:
    scripts = re.findall(r"^bash (\S+)", PAGES["README.md"], re.MULTILINE)
    assert scripts == ["sample_traces/try.sh", "tests/run.sh"]
    assert all((ROOT / script).stat().st_mode & stat.S_IXUSR for script in scripts)


def test_the_reference_has_every_command() -> None:
    pages = [text for name, text in PAGES.items() if name.startswith("docs/cli")]
    titles = re.findall(r"^##+ traceanalyzer (.*)$", "\n".join(pages), re.MULTILINE)
    assert {title for title in titles if " " not in title} >= set(COMMANDS)
    assert {f"show {name}" for name in BY_COMMAND} <= set(titles)
    assert {title.split()[-1] for title in titles} >= set(OLD) - set(BY_COMMAND)


def test_every_finding_has_a_page_and_every_page_a_finding() -> None:
    made = set().union(
        COMPILE_FINDINGS,
        PIPELINE_FINDINGS,
        MEMORY_FINDINGS,
        *(_ids(path) for path in RULES.glob("*.py")),
    )
    explained = {name: page.id for name in made if (page := finding_page(name))}
    assert made == set(explained)
    assert set(explained.values()) == EXPLAINED


@pytest.mark.parametrize("page", finding_pages().values(), ids=lambda page: page.id)
def test_a_page_says_all_there_is_to_say(page: FindingPage) -> None:
    headings = re.findall(r"^## (.*)$", page.text, re.MULTILINE)
    assert page.text.startswith(f"# {page.id}\n\n**")
    assert headings == ["What it means", "How it was decided", "What to do", "Example"]
    assert "<!--" not in page.text
    assert not re.search(r"^- `[A-Z_]+` = .*`:\n(?!  )", page.text, re.MULTILINE), (
        "a threshold without its reason"
    )


def test_a_finding_is_found_by_its_longer_ids() -> None:
    for longer, short in (
        ("condition-gpu-0-throttling", "condition"),
        ("host-waits-and-launches", "host-waits"),
    ):
        page = finding_page(longer)
        assert page is not None
        assert page.id == short
    assert finding_page("launch") is None
    assert finding_page("launch-bounded") is None


def _ids(path: Path) -> set[str]:
    """The ids of the findings that a module of rules makes: of formatted ones what stands before
    the first hole."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    makers = [
        c
        for c in calls
        if isinstance(c.func, ast.Name)
        and c.func.id in ("Draft", "finding", "_Cause", "_regularity")
        and c.args
    ]
    texts = [
        c.args[0].values[0] if isinstance(c.args[0], ast.JoinedStr) else c.args[0] for c in makers
    ]
    constants = {"GPU_BUSY": GPU_BUSY, "UNDERSIZED": UNDERSIZED}
    named = {
        constants[text.id] for text in texts if isinstance(text, ast.Name) and text.id in constants
    }
    return named | {str(text.value).rstrip("-") for text in texts if isinstance(text, ast.Constant)}
