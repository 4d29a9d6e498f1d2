"""Drives an installed Chromium through the DevTools protocol on a pipe, to see what a page shows.

with Chromium.start() as browser:
    page = browser.open(path)
    page.evaluate("document.title")
"""

import base64
import json
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    # A page acts alike whether or not another is in front of it, and a turn of the wheel is over
    # when it is answered.
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-smooth-scrolling",
)
PATIENCE_S = 60.0
"""Longest wait for an answer: a loaded machine takes seconds to start the browser."""
FRAMES = f"""new Promise(next => {{
    setTimeout(next, {PATIENCE_S / 2 * 1e3});
    requestAnimationFrame(() => requestAnimationFrame(next));
}})"""
"""Two frames: input is handed to a page at the start of one, and what it asks for is drawn at the
end of the next."""


def chromium() -> str | None:
    """The browser's program, None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A running browser."""

    def __init__(
        self, process: subprocess.Popen[bytes], profile: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._process = process
        self._profile = profile
        self._calls = 0
        self._rest = b""
        self.listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    @classmethod
    def start(cls) -> Self:
        """Start the installed browser. Raises FileNotFoundError where there is none."""
        program = chromium()
        if program is None:
            raise FileNotFoundError("no Chromium is installed: apt-get install chromium")
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # The browser speaks on descriptors 3 and 4; the shell puts ours there.
        command = [
            "sh",
            "-c",
            'exec "$0" "$@" 3<&0 4>&1 1>&2',
            program,
            *FLAGS,
            f"--user-data-dir={profile.name}",
        ]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return cls(subprocess.Popen(command, **pipes), profile)  # type: ignore[call-overload]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The result of a DevTools command; events met meanwhile go to their listeners."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while b"\0" not in self._rest:
            if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"the browser said nothing for {PATIENCE_S:.0f} s")
            chunk = self._process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not chunk:
                raise RuntimeError("the browser has gone")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if "method" in answer and answer.get("sessionId") in self.listeners:
            self.listeners[answer["sessionId"]](answer["method"], answer["params"])
        return answer

    def open(
        self, file: Path, *, width: int = 1280, height: int = 900, dark: bool = False
    ) -> "Page":
        """A page with the file, in front, once all its scripts have run and it has been drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self.listeners[session] = page.heard
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.look(width=width, height=height, dark=dark)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.call("Page.navigate", url=file.resolve().as_uri())
        # Until all scripts have run: the first of them says that it is ready while the others are
        # still read.
        page.wait(
            "document.readyState == 'complete' && document.documentElement.dataset.ready !== undefined"
        )
        page.settle()
        return page


@dataclass
class Page:
    """An open page: what it complained of, what it asked the network for."""

    browser: Chromium
    session: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        """Keep what the browser says of the page."""
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A DevTools command to this page."""
        return self.browser.call(method, self.session, **parameters)

    def look(
        self, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = ""
    ) -> None:
        """Give the page another window, colour scheme or medium."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited. Raises RuntimeError where it throws."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(
                str(answer["exceptionDetails"].get("exception", answer["exceptionDetails"]))
            )
        return answer["result"].get("value")

    def until(self, expression: str, holds: Callable[[Any], bool]) -> Any:
        """The value of a JavaScript expression once it is as it should be. Raises TimeoutError."""
        end = time.monotonic() + PATIENCE_S
        while not holds(value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} is {value!r}")
            time.sleep(0.02)
        return value

    def wait(self, expression: str) -> None:
        """Until a JavaScript expression holds. Raises TimeoutError."""
        self.until(expression, bool)

    def settle(self) -> None:
        """Until what was put in is handled, what it asked for is drawn, and scrolling is over."""
        self.evaluate(FRAMES)

    def act(self, expression: str) -> Any:
        """The value of a JavaScript expression that changes the page, once the page has settled."""
        value = self.evaluate(expression)
        self.settle()
        return value

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key, as a person does."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}
        code = codes.get(key, ord(key[0].upper()))
        text = text or {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def write(self, text: str) -> None:
        """Type text into the field that has the focus."""
        self.call("Input.insertText", text=text)
        self.wait(f"document.activeElement.value.includes({json.dumps(text)})")
        self.settle()

    def point(self, x: float, y: float) -> None:
        """Move the pointer there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left button there."""
        self.point(x, y)
        held = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", buttons=1, **held)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **held)
        self.settle()

    def wheel(self, x: float, y: float, down: float, *, held: str = "") -> None:
        """Turn the wheel there, a key (`ctrl`, `shift`) held or none."""
        keys = {"": 0, "ctrl": 2, "shift": 8}[held]
        self.call(
            "Input.dispatchMouseEvent",
            type="mouseWheel",
            x=x,
            y=y,
            deltaX=0,
            deltaY=down,
            modifiers=keys,
        )
        self.settle()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the left button at one point and let go at another, moving in between."""
        self.point(*start)
        held = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], **held)
        for part in (0.3, 0.7, 1.0):
            x, y = (a + part * (b - a) for a, b in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **held)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], **held)
        self.settle()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Close the page."""
        self.call("Page.close")

    def paper(self, file: Path) -> None:
        """The page printed, as a PDF."""
        data = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        file.write_bytes(base64.b64decode(data))
