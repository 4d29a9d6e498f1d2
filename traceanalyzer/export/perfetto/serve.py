"""Hands one file to Perfetto's page in the browser: from this machine, to that page, once.

Perfetto's page reads traces of its users from http://127.0.0.1:9001 alone (its content security
policy; its own `trace_processor` and `record_android_trace` serve there, too). The trace does not
leave the machine: the page reads it within the browser."""

import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from traceanalyzer.base import TraceAnalyzerError

HOST = "127.0.0.1"
PORT = 9001
VIEWER = "https://ui.perfetto.dev"
PIECE_BYTES = 1 << 20
WAIT_S = 0.5  # how long a fetch is waited for before it is asked again whether to go on
PATIENCE_S = 900.0  # the server ends when nothing has been fetched for so long


class OneFile(ThreadingHTTPServer):
    """A server that gives one file to Perfetto's page: who asks slowly keeps nobody else waiting.
    Raises TraceAnalyzerError where the port is taken."""

    def __init__(self, file: Path, port: int = PORT) -> None:
        self.file, self.fetched, self.timeout, self.fetched_at = (
            file,
            False,
            WAIT_S,
            time.monotonic(),
        )
        # Not to be guessed: other programs of the machine can ask, too.
        self.path = f"/{secrets.token_urlsafe(16)}/{file.name}"
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            taken = (
                f"port {port} of {HOST} is taken (by another `traceanalyzer export --open`, or a "
                "trace_processor?)"
            )
            raise TraceAnalyzerError(
                f"{taken}, and Perfetto's page reads from no other; end that first"
            ) from error

    @property
    def link(self) -> str:
        """What is to be opened in a browser."""
        return f"{VIEWER}/#!/?url=http://{HOST}:{self.server_port}{self.path}"

    def until_fetched(self) -> None:
        """Answer until the file has been given once. Raises TraceAnalyzerError where nobody fetches
        it."""
        self.fetched_at = time.monotonic()
        while not self.fetched:
            if time.monotonic() - self.fetched_at > PATIENCE_S:
                raise TraceAnalyzerError(
                    f"the page has not read the trace for {PATIENCE_S / 60:g} minutes"
                )
            self.handle_request()

    def handle_error(self, *_: object) -> None:
        """A page that went away in the middle may come back."""


class _Handler(BaseHTTPRequestHandler):
    server: OneFile
    timeout = 30

    def do_OPTIONS(self) -> None:
        """What a browser asks before a page may reach this machine."""
        self._begun(
            204,
            ("Access-Control-Allow-Methods", "GET"),
            ("Access-Control-Allow-Private-Network", "true"),
        )

    def do_GET(self) -> None:
        """The file."""
        size = str(self.server.file.stat().st_size)
        if not self._begun(
            200, ("Content-Type", "application/octet-stream"), ("Content-Length", size)
        ):
            return
        with self.server.file.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                self.wfile.write(piece)
                self.server.fetched_at = time.monotonic()
        self.server.fetched = True

    def _begun(self, status: int, *headers: tuple[str, str]) -> bool:
        """Begin the answer, if it is Perfetto's page that asks for the file, and by this machine's
        own address."""
        own_host = f"{HOST}:{self.server.server_port}"
        asked = self.path == self.server.path and self.headers.get("Origin") == VIEWER
        if not asked or self.headers.get("Host") != own_host:
            self.send_error(403)
            return False
        self.send_response(status)
        for header in (
            ("Access-Control-Allow-Origin", VIEWER),
            ("Cache-Control", "no-store"),
            *headers,
        ):
            self.send_header(*header)
        self.end_headers()
        return True

    def log_message(self, *_: object) -> None:
        """Nothing: the command says what there is to say."""
