"""One file for Perfetto's page, and for nobody else."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time

import pytest
from click.testing import CliRunner

from tests.recorded import ROOT
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.cli import cli
from traceanalyzer.export.perfetto import serve
from traceanalyzer.export.perfetto.serve import HOST, VIEWER, OneFile


@pytest.fixture
def server(tmp_path):
    file = tmp_path / "trace.json"
    file.write_bytes(b"[]" * 2_000_000)
    with OneFile(file, 0) as running:
        thread = threading.Thread(target=running.until_fetched)
        thread.start()
        yield running
        running.fetched = True
        thread.join(5)
        assert not thread.is_alive()


def ask(server, method="GET", path=None, **headers):
    given = {"Host": f"{HOST}:{server.server_port}", "Origin": VIEWER} | headers
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=10)
    connection.putrequest(method, path or server.path, skip_host=True)
    for name, value in given.items():
        if value:
            connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_the_viewer_gets_the_file_once_and_the_server_ends(server):
    status, headers, body = ask(server)
    assert (status, len(body)) == (200, 4_000_000)
    assert headers["Access-Control-Allow-Origin"] == VIEWER
    end = time.monotonic() + 5
    while not server.fetched and time.monotonic() < end:
        time.sleep(0.01)
    assert server.fetched


def test_a_browser_that_asks_first_is_told_so(server):
    status, headers, _ = ask(server, "OPTIONS")
    assert status == 204
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    assert not server.fetched


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (None, {"Origin": "https://evil.example"}),
        (None, {"Origin": ""}),
        (None, {"Host": "evil.example:9001"}),
        ("/trace.json", {}),
        ("/../trace.json", {}),
        ("/", {}),
    ],
)
def test_nobody_else_gets_anything(server, path, headers):
    status, answered, body = ask(server, path=path, **headers)
    assert status == 403
    assert "Access-Control-Allow-Origin" not in answered
    assert b"[][]" not in body
    assert not server.fetched


def test_who_asks_slowly_keeps_nobody_waiting(server):
    with socket.create_connection((HOST, server.server_port)) as slow:
        slow.sendall(b"GET /")
        assert ask(server)[0] == 200


def test_it_ends_where_nobody_fetches(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE_S", 0.0)
    monkeypatch.setattr(serve, "WAIT_S", 0.01)
    with (
        OneFile(tmp_path / "trace.json", 0) as server,
        pytest.raises(TraceAnalyzerError, match="has not read"),
    ):
        server.until_fetched()


def test_the_link_names_the_file_at_the_address_that_the_viewer_reads_from(server):
    assert server.link == f"{VIEWER}/#!/?url=http://127.0.0.1:{server.server_port}{server.path}"
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_said_so(server):
    with pytest.raises(TraceAnalyzerError, match="is taken"):
        OneFile(server.file, server.server_port)


@pytest.mark.parametrize("sample", ["sync_bound", "nsys_sync_bound"])
def test_the_command_serves_the_recording_with_its_findings(sample, monkeypatch):
    seen = {}

    def fetched(server):
        seen["events"] = json.loads(server.file.read_bytes())["traceEvents"]

    monkeypatch.setattr(OneFile, "until_fetched", fetched)
    monkeypatch.setattr(OneFile.__init__, "__defaults__", (0,))
    result = CliRunner().invoke(cli, ["open", str(ROOT / "sample_traces" / sample)])
    assert result.exit_code == 0, result.output
    assert f"{VIEWER}/#!/?url=http://127.0.0.1:" in result.output
    names = {
        event["args"]["name"] for event in seen["events"] if event.get("name") == "thread_name"
    }
    assert "critical path" in names
    assert any("name" in event and "gemm" in str(event["name"]) for event in seen["events"])
