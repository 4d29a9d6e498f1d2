"""The MCP server as an agent meets it: by the SDK's own client, in this process and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.agent.server import make_server
from traceanalyzer.agent.sources import Sources
from traceanalyzer.cli import main

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
DUMPS = Path(__file__).resolve().parents[1] / "data" / "hang"
BOUND, FIXED = (str(SAMPLES / name) for name in ("sync_bound", "sync_fixed"))
QUESTIONS = {
    "diagnose": {"path": BOUND},
    "explain": {"name": "host-waits"},
    "table": {"path": BOUND, "name": "kernels"},
    "evidence": {"path": BOUND, "finding": "host-waits"},
    "whatif": {"path": BOUND, "speedups": {"aten::addmm": 2.0}},
    "compare": {"a": BOUND, "b": FIXED},
    "verify": {"path": BOUND, "at_most": {"gpu_idle_share": "10%"}},
    "limits": {"path": BOUND},
    "hang": {"path": str(DUMPS)},
}


async def ask_all(server):
    async with Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answers = {name: await client.call_tool(name, arguments) for name, arguments in QUESTIONS.items()}
        wrong = await client.call_tool("diagnose", {"path": "/no/such/file.json"})
    return names, answers, wrong


def test_every_verb_answers_in_process():
    names, answers, wrong = asyncio.run(ask_all(make_server(Sources())))
    assert sorted(names) == sorted(QUESTIONS)
    for name, answer in answers.items():
        assert not answer.is_error, name
        (content,) = answer.content
        assert tokens(content.text) <= MOST_TOKENS
        assert json.loads(content.text)
    assert wrong.is_error
    assert "cannot be opened" in wrong.content[0].text
    assert "Traceback" not in wrong.content[0].text


def test_the_command_serves_on_standard_input_and_output():
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "traceanalyzer", "mcp", "--root", str(SAMPLES), "--root", str(DUMPS)]
    )
    names, answers, wrong = asyncio.run(ask_all(command))
    assert len(names) == len(QUESTIONS)
    assert json.loads(answers["diagnose"].content[0].text)["verdict"] == "sync"
    assert "outside" in wrong.content[0].text


def test_without_the_sdk_it_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SystemExit) as left:
        main(["mcp"])
    assert left.value.code == 1
    assert "pip install 'traceanalyzer[mcp]'" in capsys.readouterr().err
