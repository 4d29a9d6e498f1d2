"""The MCP server as an agent meets it: by the SDK's own client, in this process and over standard
input and output."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

import traceanalyzer
from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.agent.server import make_server
from traceanalyzer.agent.sources import Sources
from traceanalyzer.cli import main
from traceanalyzer.history import database
from traceanalyzer.history.runs import store_report
from traceanalyzer.report.json import render_json

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
DATA = Path(__file__).resolve().parents[1] / "data"
DUMPS = DATA / "hang"
BOUND, FIXED = (str(SAMPLES / name) for name in ("sync_bound", "sync_fixed"))
QUESTIONS = {
    "recordings": {"folder": str(SAMPLES)},
    "diagnose": {"path": BOUND},
    "explain": {"name": "host-waits"},
    "table": {"path": BOUND, "name": "kernels"},
    "evidence": {"path": BOUND, "finding": "host-waits"},
    "whatif": {"path": BOUND, "speedups": {"aten::addmm": 2.0}},
    "compare": {"a": BOUND, "b": FIXED},
    "verify": {"path": BOUND, "at_most": {"gpu_idle_share": "10%"}},
    "limits": {"path": BOUND},
    "hang": {"path": str(DUMPS)},
    "memory": {"path": str(DATA / "memory" / "base.snapshot.pickle.gz")},
    "compile": {"path": str(DATA / "compile" / "break_once.log.gz")},
}


async def ask_all(server):
    async with Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answers = {
            name: await client.call_tool(name, arguments) for name, arguments in QUESTIONS.items()
        }
        wrong = await client.call_tool("diagnose", {"path": "/no/such/file.json"})
    return names, answers, wrong


def test_every_verb_answers_in_process():
    names, answers, wrong = asyncio.run(ask_all(make_server(Sources())))
    assert sorted(names) == sorted(QUESTIONS)
    for name, answer in answers.items():
        assert not answer.is_error, name
        (content,) = answer.content
        assert tokens(content.text) <= MOST_TOKENS
        assert json.loads(content.text) == answer.structured_content
    assert wrong.is_error
    assert "cannot be opened" in wrong.content[0].text
    assert "Traceback" not in wrong.content[0].text


WRONG = {
    "there is no argument 'pth'; diagnose takes path, rank, step": ("diagnose", {"pth": BOUND}),
    "path is missing; diagnose takes path, rank, step": ("diagnose", {}),
    "rank: Input should be a valid integer": ("diagnose", {"path": BOUND, "rank": "first"}),
    "there is no tool 'analyse'; tools: recordings, diagnose": ("analyse", {"path": BOUND}),
}


def test_a_wrong_argument_is_one_line_that_says_what_is_taken():
    async def ask():
        async with Client(make_server(Sources())) as client:
            return {says: await client.call_tool(*asked) for says, asked in WRONG.items()}

    for says, answer in asyncio.run(ask()).items():
        (content,) = answer.content
        assert answer.is_error
        assert says in content.text
        assert "\n" not in content.text
        assert "pydantic" not in content.text


def test_the_command_serves_on_standard_input_and_output():
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "traceanalyzer", "mcp", "--root", str(SAMPLES), "--root", str(DATA)],
    )
    names, answers, wrong = asyncio.run(ask_all(command))
    assert len(names) == len(QUESTIONS)
    assert json.loads(answers["diagnose"].content[0].text)["bottleneck"] == "sync"
    assert "outside" in wrong.content[0].text


@pytest.fixture(scope="module")
def walled(tmp_path_factory):
    """A folder with ways out of it, and a recording and a report outside."""
    tmp_path = tmp_path_factory.mktemp("walled")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "run#1").mkdir()
    recording = Path(BOUND) / "trace.rank0.json.gz"
    outside = shutil.copy(recording, tmp_path / "trace.rank0.json.gz")
    (tmp_path / "report.json").write_text(render_json(traceanalyzer.analyze(outside)))
    for link in (
        root / "link.json.gz",
        root / "sub" / "trace.rank0.json.gz",
        root / "sub" / "dump_rank0.json",
    ):
        link.symlink_to(outside)
    (root / "link.json").symlink_to(tmp_path / "report.json")
    (root / "folder").symlink_to(tmp_path)
    (root / "side").mkdir()
    shutil.copy(recording, root / "side")
    (root / "side" / "environment.json").symlink_to(Path(BOUND) / "environment.json")
    shutil.copy(recording, root / "inside.json.gz")
    return root


WAYS_OUT = (
    "../report.json",
    "run#1/../../report.json",
    "lin[k].json",
    "lin[k].json.gz",
    "link.json.gz",
    "link.json",
    "sub",
    "[s]ub/*",
    "folder",
    "folder/report.json",
    "folder/*.json",
    "side",
    "run#1/../link.json",
    "../nothing#latest",
    "./sub/../../trace.rank0.json.gz",
    "sub/trace.rank0.json.gz",
    "side/../../report.json",
)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_the_root_is_a_wall(walled, way):
    inside = str(walled / "inside.json.gz")
    out = f"{walled}/{way}"
    asked = [
        ("diagnose", {"path": out}),
        ("table", {"path": out, "name": "kernels"}),
        ("limits", {"path": out}),
        ("compare", {"a": out, "b": inside}),
        ("compare", {"a": inside, "b": out}),
        ("hang", {"path": out}),
        ("memory", {"path": out}),
        ("memory", {"path": str(DATA / "memory" / "base.snapshot.pickle.gz")}),
        ("compile", {"path": out}),
        ("compile", {"path": str(DATA / "compile" / "break_once.log.gz")}),
        ("compile", {"path": inside, "trace": out}),
        ("verify", {"path": inside, "at_most": {"step_time_ms.mean": "+3%"}, "baseline": out}),
        ("whatif", {"path": out}),
        ("evidence", {"path": out, "finding": "host-waits"}),
    ]
    answers = asyncio.run(ask(make_server(Sources([walled])), asked))
    assert [
        verb for (verb, _), answer in zip(asked, answers, strict=True) if not answer.is_error
    ] == []


def test_what_lies_inside_is_answered(walled):
    asked = [("diagnose", {"path": str(walled / "inside.json.gz")})]
    (fine,) = asyncio.run(ask(make_server(Sources([walled])), asked))
    assert not fine.is_error


@pytest.mark.parametrize(
    ("verb", "arguments", "says"),
    [
        ("whatif", {"path": BOUND, "speedups": {"(": 2.0}}, "no regular expression"),
        *(
            ("whatif", {"path": BOUND, "speedups": {"mm": n}}, "finite N")
            for n in (-1.0, 0.0, 1e-300)
        ),
        ("table", {"path": BOUND, "name": "x" * 100_000}, "…"),
        ("table", {"path": BOUND, "name": "kernels", "sort": "x" * 100_000}, "…"),
        ("diagnose", {"path": "x" * 100_000}, "…"),
        ("explain", {"name": "\x1b[31m" + "x" * 9_000}, "…"),
        ("compare", {"a": BOUND, "b": "nothing\n" * 5_000}, "…"),
    ],
)
def test_an_error_is_short_and_says_why(verb, arguments, says, capfd):
    (answer,) = asyncio.run(ask(make_server(Sources()), [(verb, arguments)]))
    assert answer.is_error
    text = answer.content[0].text
    assert says in text
    assert len(text) < 1_000
    assert "\x1b" not in text
    assert "Traceback" not in capfd.readouterr().err


async def ask(server, asked):
    async with Client(server) as client:
        return [await client.call_tool(verb, arguments) for verb, arguments in asked]


def test_without_the_sdk_it_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SystemExit) as left:
        main(["mcp"])
    assert left.value.code == 1
    assert "pip install '" in capsys.readouterr().err


def test_a_question_about_an_old_history_changes_no_file(tmp_path, monkeypatch):
    """Of a history of an earlier schema, which storing would bring up to date."""
    path = tmp_path / "runs.db"
    recording = shutil.copy(Path(BOUND) / "trace.rank0.json.gz", tmp_path)
    monkeypatch.setattr(database, "MIGRATIONS", database.MIGRATIONS[:2])
    store_report(path, traceanalyzer.analyze(recording))
    monkeypatch.undo()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    asked = [
        ("compare", {"a": f"{path}#1", "b": recording}),
        (
            "verify",
            {"path": recording, "at_most": {"step_time_ms.mean": "+3%"}, "baseline": f"{path}#1"},
        ),
    ]
    answers = asyncio.run(ask(make_server(Sources([tmp_path])), asked))
    assert [answer.is_error for answer in answers] == [False, False]
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
