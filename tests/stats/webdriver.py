"""A small client of chromedriver, for tests: the W3C WebDriver protocol is JSON over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
MISSING = [name for name, found in (("chromedriver", DRIVER), ("chromium", BROWSER)) if not found]
WAIT = 60  # seconds for one command


class Chromium:
    """A headless browser with a fresh profile; use as a context."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        assert DRIVER and BROWSER
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._url = f"http://127.0.0.1:{self._port()}"
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--hide-scrollbars", f"--user-data-dir={self._profile.name}",
                     f"--window-size={width},{height}"]  # fmt: skip
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        options: dict[str, Any] = {"binary": BROWSER, "args": arguments}
        if width < 500:  # a desktop window cannot be as narrow as a phone
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2}}
        asked = {"browserName": "chrome", "goog:chromeOptions": options,
                 "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}  # fmt: skip
        self._session = ""
        try:
            made = self._send("POST", "/session", {"capabilities": {"alwaysMatch": asked}})
        except BaseException:
            self._stop()
            raise
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._send("DELETE", self._session)
        finally:
            self._stop()

    def open(self, url: str) -> None:
        """Load a page and wait for its load event."""
        self._send("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *values: Any) -> Any:
        """Run a function's body in the page; `arguments` are the values."""
        return self._send("POST", f"{self._session}/execute/sync", {"script": script, "args": list(values)})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call: `browser` is the console, `performance` the network's events."""
        found: list[dict[str, Any]] = self._send("POST", f"{self._session}/se/log", {"type": kind})
        return found

    def screenshot(self) -> bytes:
        """The window as PNG."""
        import base64

        return base64.b64decode(self._send("GET", f"{self._session}/screenshot"))

    def command(self, name: str, **parameters: Any) -> Any:
        """Send a command of the browser's own protocol."""
        return self._send("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def _port(self) -> int:
        assert self._process.stdout
        for line in self._process.stdout:
            if found := re.search(r"success.* on port (\d+)", line):
                return int(found[1])
        raise RuntimeError("chromedriver did not start")

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=WAIT) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode(errors="replace")[:500]) from None

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=WAIT)
        self._profile.cleanup()
