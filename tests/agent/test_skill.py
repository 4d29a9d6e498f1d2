"""The skill, its manifest and the index for models say what the commands do."""

from __future__ import annotations

import json
import re

import click

from tests.recorded import ROOT
from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.base.extras import DISTRIBUTION
from traceanalyzer.cli import cli
from traceanalyzer.cli.commands import COMMANDS
from traceanalyzer.version import __version__

SKILL = (ROOT / "skill" / "SKILL.md").read_text(encoding="utf-8")
INDEX = (ROOT / "llms.txt").read_text(encoding="utf-8")


def test_its_front_says_what_it_is_and_when_to_use_it() -> None:
    head = re.match(r"---\nname: (\S+)\ndescription: (.+)\n---\n", SKILL)
    assert head is not None
    assert head[1] == DISTRIBUTION
    assert "Use when" in head[2]
    assert len(head[2]) <= 1024
    assert tokens(SKILL) <= MOST_TOKENS


def test_every_command_and_option_in_it_exists() -> None:
    context = click.Context(cli)
    for line in re.findall(r"^traceanalyzer (.+)$", SKILL, re.MULTILINE):
        words = line.split(" -- ")[0].split()
        command = cli.get_command(context, words[0])
        assert words[0] in COMMANDS, line
        if isinstance(command, click.Group) and len(words) > 1:
            command = command.get_command(click.Context(command), words[1])
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line


def test_the_manifest_names_the_same_program() -> None:
    manifest = json.loads((ROOT / "skill" / "plugin.json").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["version"]) == (DISTRIBUTION, __version__)
    assert all((ROOT / "skill" / skill).is_file() for skill in manifest["skills"])
    assert f"{DISTRIBUTION}[mcp]" in manifest["mcpServers"]["traceanalyzer"]["args"]


def test_what_the_index_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", INDEX)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []
    assert set(re.findall(r"`traceanalyzer (\w+)", INDEX)) <= set(COMMANDS)
