"""`hang` as it is typed: one screen, the contract, a page, nothing private after `--redact`; and as
an agent asks."""

from __future__ import annotations

import json
import os
import pickle
import time
import tracemalloc
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.fleet.hang.simulation import KINDS, case
from traceanalyzer.agent import jobs
from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.agent.sources import Sources
from traceanalyzer.cli import cli
from traceanalyzer.fleet.hang.several import hang_page, hangs_in

LINES = 24


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["hang", *arguments])


def simulated(folder: Path, seed: int) -> Path:
    for rank, dump in case(seed).dumps.items():
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump, 2))
    return folder


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_the_answer_is_one_screen(seed: int, tmp_path: Path) -> None:
    result = run(str(simulated(tmp_path, seed)))
    assert result.exit_code == 0, result.output
    assert len(result.output.splitlines()) <= LINES
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize("name", ["nvidia/gpu_error_1st", "nvidia/lock_gil_1st"])
def test_published_hangs_fit_too(name: str, hangs: Path) -> None:
    assert len(run(str(hangs / name)).output.splitlines()) <= LINES


def test_the_contract(hangs: Path) -> None:
    found = json.loads(run(str(hangs / "nvidia" / "lock_gil_1st"), "--format", "json").output)
    verdict = found["verdict"]
    assert {"culprits", "kind", "collective", "group", "confidence"} <= verdict.keys()
    assert (verdict["culprits"], verdict["kind"], verdict["confidence"]) == (
        [9, 14],
        "cpu_stopped",
        "sure",
    )
    assert (verdict["collective"], verdict["sequence"]) == ("all_to_all", 45265)
    assert (found["silent"], found["cpu_behind"], found["gpu_behind"]) == ([9, 14], [9, 14], [])
    assert found["mismatches"] == []
    waiting = [group for group in found["groups"] if group["stands_at"]]
    assert found["groups"][: len(waiting)] == waiting
    assert any(group["held_up_by"] == "ranks 9 and 14" for group in waiting)


def test_markdown_and_page(hangs: Path, tmp_path: Path) -> None:
    folder = str(hangs / "nvidia" / "gpu_error_1st")
    assert "**The GPU of ranks 12 and 14 stopped" in run(folder, "--format", "markdown").output
    page = tmp_path / "hang.html"
    assert run(folder, "-o", str(page)).exit_code == 0
    text = page.read_text()
    for rank in (12, 14):
        assert f"rank {rank}, TENSOR_MODEL_PARALLEL_GROUP: GPU behind" in text
    assert ": CPU behind" not in text  # it waits for the rank's own GPU
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_full_has_every_group_that_waits(hangs: Path) -> None:
    folder = str(hangs / "nvidia" / "gpu_error_1st")
    found = json.loads(run(folder, "--format", "json").output)
    waiting = [group["group"] for group in found["groups"] if group["stands_at"]]
    brief = run(folder).output
    full = CliRunner().invoke(cli, ["analyze", "--full", folder]).output
    assert "more groups wait" in brief
    said = " ".join(full.split())
    assert all(group in said for group in waiting)
    assert "To know more next time" in full
    assert "none" not in brief


PARTS = ("Summary", "Metrics", "Findings", "Recommendations")


def test_the_answer_has_four_parts_wherever_all_of_it_is(hangs: Path, tmp_path: Path) -> None:
    folder = str(hangs / "nvidia" / "gpu_error_1st")
    page = tmp_path / "hang.html"
    assert run(folder, "-o", str(page)).exit_code == 0
    whole = {
        "terminal": CliRunner().invoke(cli, ["analyze", "--full", folder]).output,
        "markdown": run(folder, "--format", "markdown").output,
        "html": page.read_text(encoding="utf-8"),
    }
    for form, text in whole.items():
        places = [text.index(part) for part in PARTS]
        assert places == sorted(places), form
        assert "nvidia-smi -q -d ECC" in text[: text.rindex("Findings")], form
        assert "rank 12: its GPU stopped" in text.replace("Rank", "rank"), form
        assert "Look for a fault of the GPU of ranks 12 and 14" in " ".join(text.split()), form


def test_findings_and_recommendations_are_values(hangs: Path) -> None:
    found = json.loads(run(str(hangs / "nvidia" / "gpu_error_1st"), "--format", "json").output)
    first, second = found["findings"]
    assert (first["id"], first["sure"], second["sure"]) == ("gpu-stopped", True, True)
    evidence = {one["metric"]: one["value"] for one in first["evidence"]}
    assert evidence["signal"] == "GPU behind"
    assert evidence["last issued"] == "all_to_all #20,536"
    assert evidence["ranks that have issued it and not completed it"] == "1 of 2"
    (advice,) = found["recommendations"]
    assert advice["command"] == found["next"][0]
    assert "nvidia-smi" in advice["command"]


def test_a_rank_without_entries_is_not_counted_as_one_that_left_some(hangs: Path) -> None:
    folder = str(hangs / "nvidia" / "lock_gil_1st")
    full = CliRunner().invoke(cli, ["analyze", "--full", folder]).output
    assert "ranks that left entries  14 of 16" in full


def test_a_group_is_held_up_by_the_gpu_that_its_peers_have_passed(hangs: Path) -> None:
    found = json.loads(run(str(hangs / "nvidia" / "gpu_error_1st"), "--format", "json").output)
    held = {group["group"]: group["held_up_by"] for group in found["groups"]}
    assert held["TENSOR_MODEL_PARALLEL_GROUP (41)"] == "rank 12"


def test_nothing_private_is_left(hangs: Path, tmp_path: Path) -> None:
    for path in (hangs / "gloo" / "storage").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "rank_1").write_bytes(b"\x80\x02cos\nsystem\n.")
    line = {
        "header": {"id": "0x7f", "rank": 3, "n_ranks": 6, "nnodes": 1},
        "metadata": {"hostname": "secrethost7"},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 64},
    }
    (tmp_path / "secrethost7.log").write_text(json.dumps(line))
    for form in ("terminal", "markdown", "json", "html"):
        arguments = (str(tmp_path), "--world-size", "6", "--format", form)
        shown = run(*arguments).output
        hidden = run(*arguments, "--redact").output
        assert "secrethost7" in shown
        for secret in ("secrethost7", "/home/me", str(tmp_path)):
            assert secret not in hidden
        assert "gloo_hangs.py" in hidden


def test_the_page_says_in_words_why_a_rank_is_a_culprit(hangs: Path, tmp_path: Path) -> None:
    page = tmp_path / "hang.html"
    assert run(str(hangs / "nvidia" / "lock_gil_1st"), "-o", str(page)).exit_code == 0
    assert "their CPUs stopped" in page.read_text(encoding="utf-8")


def test_what_has_no_dumps_is_one_line(tmp_path: Path) -> None:
    result = run(str(tmp_path))
    assert (result.exit_code, len(str(result.exception).splitlines())) == (1, 1)


def test_an_agent_is_told_in_few_words(hangs: Path) -> None:
    answer = jobs.hang(Sources(), str(hangs / "nvidia" / "gpu_error_1st"))
    assert tokens(answer) <= MOST_TOKENS
    assert json.loads(answer)["verdict"]["culprits"] == [12, 14]


def test_what_waits_for_a_moment_is_no_hang(tmp_path: Path) -> None:
    folder = simulated(tmp_path, KINDS.index("gil"))
    oldest = min(
        entry["time_created_ns"] for dump in case(0).dumps.values() for entry in dump["entries"]
    )
    for path in folder.iterdir():
        os.utime(path, ns=(oldest, oldest + 10**9))
    found = json.loads(run(str(folder), "--format", "json").output)
    assert (found["verdict"]["kind"], found["verdict"]["culprits"], found["culprits"]) == (
        "nothing_wrong",
        [],
        [],
    )
    assert found["cpu_behind"]
    assert "Nothing wrong is seen" in run(str(folder)).output


def dumps_of_two(folder: Path, ranks: int) -> None:
    """The dumps of ranks 0 and 1 of so many; the others left none, and all wait for them."""
    entry = {
        "record_id": 0,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_700_000_000_000_000_000,
        "input_sizes": ((4,),),
        "input_dtypes": ["Float"],
        "output_sizes": ((4,),),
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "timeout_ms": 1,
        "is_p2p": False,
        "frames": [],
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    for rank in range(2):
        dump = {"version": "2.4", "pg_config": groups, "entries": [entry]}
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump, 2))


def test_a_page_of_thousands_of_missing_ranks_takes_time_in_proportion(tmp_path: Path) -> None:
    """Two dumps of a job of 6,000: all others are culprits. It took half a minute."""
    dumps_of_two(tmp_path, 6000)
    page = tmp_path / "hang.html"
    before = time.process_time()
    assert run(str(tmp_path), "-o", str(page)).exit_code == 0
    assert time.process_time() - before < 8
    assert "victim" in page.read_text() or "ranks share a column" in page.read_text()


def test_json_of_thousands_of_missing_ranks_makes_no_copy_of_each(tmp_path: Path) -> None:
    """20,000 of them: rows as dicts, and the text twice, took 3.6 times the text."""
    dumps_of_two(tmp_path, 20_000)
    page = hang_page(hangs_in(tmp_path), ())
    tracemalloc.start()
    length = sum(map(len, page.json_pieces()))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    text = page.json()
    rows = json.loads(text)["culprits"]
    assert [row["rank"] for row in rows] == list(range(2, 20_000))
    assert rows[7] == asdict(page.hang.culprits[7])
    assert length == len(text)
    assert most < 2.5 * length
