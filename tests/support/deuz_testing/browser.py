"""A real Chromium without a window, driven over its DevTools protocol.

Rules:
- The browser reaches this machine and nothing else.
- One call at a time; what the page reports meanwhile is kept in `Tab.complaints`.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    # The sandbox needs user namespaces, which containers seldom grant.
    "--no-sandbox",
    "--remote-debugging-port=0",
)

START_SECONDS = 30.0
ANSWER_SECONDS = 20.0
POLL_SECONDS = 0.02
WAIT_MS = 10_000
REPLACED_ATTEMPTS = 20

WAIT = """
new Promise((resolve) => {
  const end = performance.now() + %d;
  const look = () => {
    let value = null;
    try { value = (%s); } catch { /* what it looks at is not there yet */ }
    if (value || performance.now() > end) resolve(Boolean(value));
    else setTimeout(look, 20);
  };
  look();
})
"""


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._calls = 0
        self.complaints: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._calls += 1
        await self._socket.send_json(
            {"id": self._calls, "method": method, "params": params}
        )
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                message = json.loads(await self._socket.receive_str())
                if message.get("id") == self._calls:
                    break
                self._listen(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def _listen(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(params["entry"]["text"])

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.call("Page.navigate", url=url)

    async def run(self, expression: str) -> Any:
        """Evaluate JavaScript, awaiting what it returns, and return a JSON value."""
        answer = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        last: RuntimeError | None = None
        for _ in range(REPLACED_ATTEMPTS):
            try:
                is_true = await self.run(WAIT % (WAIT_MS, expression))
            except RuntimeError as fault:
                # While a page is being replaced there is nothing to wait in.
                last = fault
                continue
            if is_true:
                return
            break
        shown = await self.run("document.body.innerText")
        raise AssertionError(
            f"never: {expression}\n{self.complaints}\n{shown}"
        ) from last

    async def show(self, *, width: int, height: int = 900, scheme: str) -> None:
        """Set the window's size and the preferred colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        # A scroll bar would be cut out of the photograph together with what it covers.
        await self.call("Emulation.setScrollbarsHidden", hidden=True)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str) -> None:
        """Press a key such as `Tab` or `Enter`."""
        text = {"Enter": "\r", "Space": " "}.get(key)
        codes = {"Tab": 9, "Enter": 13, "Space": 32}
        name = " " if key == "Space" else key
        details = {"key": name, "code": key, "windowsVirtualKeyCode": codes[key]}
        shown = details | ({"text": text} if text else {})
        await self.call("Input.dispatchKeyEvent", type="keyDown", **shown)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **details)

    async def photograph(self, path: Path) -> None:
        """Save the whole page as a PNG file."""
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        await asyncio.to_thread(_save, path, base64.b64decode(answer["data"]))


@contextlib.asynccontextmanager
async def open_browser(home: Path) -> AsyncIterator[Tab]:
    """Start Chromium with an empty profile in `home` and give its only tab."""
    process = await asyncio.create_subprocess_exec(
        "chromium",
        *FLAGS,
        f"--user-data-dir={home}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port = await asyncio.to_thread(_debugging_port, home / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            url = await _tab_url(session, port)
            async with session.ws_connect(url, max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                # Without it the page is in the background: no clipboard, no focus.
                await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
                yield tab
    finally:
        # Its own process group: the helpers that it started end with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _save(path: Path, image: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image)


def _debugging_port(file: Path) -> int:
    """Return the port that Chromium chose, once it has written it down."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if file.exists() and (text := file.read_text()):
            return int(text.split()[0])
        time.sleep(POLL_SECONDS)
    raise TimeoutError("chromium did not start")


async def _tab_url(session: aiohttp.ClientSession, port: int) -> str:
    async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
        url: str = (await answer.json())["webSocketDebuggerUrl"]
        return url
