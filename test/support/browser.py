"""Chromium without a window, driven through the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `errors` lists what the console and the page's scripts reported, and each request to a network."""

    def __init__(self, profile: Path):
        assert CHROMIUM is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The protocol's file descriptors are 3 and 4; "$@" keeps the arguments as they are.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars")
        command = [CHROMIUM, *options, f"--user-data-dir={profile}", "--no-first-run", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._number, self._session = b"", 0, None
        self.errors: list[str] = []
        page = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, ready: str = "document.body && document.body.dataset.ready === 'true'") -> float:
        """Open a file; return the seconds until `ready`, by default what reports say of themselves, is true."""
        begin = time.monotonic()
        self._call("Page.navigate", url=path.resolve().as_uri())
        self.wait(f"location.href === {json.dumps(path.resolve().as_uri())} && {ready}")
        return time.monotonic() - begin

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript; promises are awaited."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < until, f"after {seconds} s still false: {condition}; errors: {self.errors}"
            time.sleep(0.02)

    def go(self, address: str) -> None:
        """Go to an address inside the page, and wait until it is drawn."""
        self.evaluate(f"location.hash = {json.dumps(address)}")
        self.paint()

    def paint(self) -> None:
        """Wait until changes of the page are drawn."""
        self.evaluate(
            "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 60))"
        )

    def press(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}), **more)
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def window(self, width: int, height: int, dark: bool = False) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._session = None
        self._call("Browser.close")
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, event: dict[str, Any]) -> None:
        method, given = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"].get("exception", given["exceptionDetails"])))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.errors.append(str(given["args"]))
        elif method == "Network.requestWillBeSent" and given["request"]["url"].startswith(("http", "ws")):
            self.errors.append("request: " + given["request"]["url"])
