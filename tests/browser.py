"""A headless Chromium, driven over its DevTools protocol: exact widths, light and dark, measurements in the page, pictures, keys."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BROWSER = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)


@dataclass(frozen=True)
class Seen:
    """A node of the accessibility tree."""

    role: str
    name: str
    properties: dict[str, Any]
    """``level`` of a heading, ``focusable``, ``expanded`` …"""
    within: tuple[str, ...]
    """Roles of the nodes that hold it, outermost first."""


class Browser:
    """A page of a browser of its own; the protocol's messages go through pipes 3 and 4, each ended by a zero byte."""

    def __init__(self, folder: Path) -> None:
        assert BROWSER is not None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        command = 'exec "$0" "$@" 3<&"$FROM" 4>&"$TO"'
        self.process = subprocess.Popen(
            ["bash", "-c", command, BROWSER, *SWITCHES, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            env={**os.environ, "FROM": str(theirs_in), "TO": str(theirs_out)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._last = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self._in)
        os.close(self._out)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self.events.append(answer)

    def look(self, width: int, dark: bool, height: int = 1000) -> None:
        """Set the viewport's size and the colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, page: Path) -> None:
        """Load a file and wait until it is shown."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def accessibility(self) -> list[Seen]:
        """What a screen reader gets: the nodes of Chromium's accessibility tree that it does not ignore, in the page's order."""
        self.call("Accessibility.enable")
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        by_id = {node["nodeId"]: node for node in nodes}
        found: list[Seen] = []

        def walk(node: dict[str, Any], within: tuple[str, ...]) -> None:
            role = node.get("role", {}).get("value", "")
            if not node["ignored"]:
                properties = {p["name"]: p["value"].get("value") for p in node.get("properties", [])}
                found.append(Seen(role, node.get("name", {}).get("value", "").strip(), properties, within))
                within = (*within, role)
            for child in node.get("childIds", []):
                if child in by_id:
                    walk(by_id[child], within)

        walk(nodes[0], ())
        return found

    def press(self, key: str) -> None:
        """Press and release a key."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        common = {"key": key, "windowsVirtualKeyCode": codes[key], "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{**common, "text": ""})

    def picture(self, path: Path) -> Path:
        """Write the whole page as a PNG."""
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))
        return path

    @property
    def problems(self) -> list[str]:
        """Errors of scripts, of the content security policy and of resources since the page was opened."""
        found = [e["params"] for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        return [json.dumps(one) for one in found if one.get("entry", {"level": "error"})["level"] == "error"]
