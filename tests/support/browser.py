"""A real browser, told what to do over its DevTools pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time

#: What Debian and others call it.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: Seconds that it has for anything.
LONG = 40.0


_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage"),
    "--remote-debugging-pipe",
)
#: It reads from 3 and writes to 4, whatever those are here.
_LAUNCHER = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 50) for fd in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless chromium, told what to do in one tab; a ``with`` block ends it."""

    def __init__(self, folder):
        self._ids = 0
        self._rest = b""
        #: What happened besides, as DevTools tell it.
        self.events = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        pipes = (str(theirs_in), str(theirs_out))
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _LAUNCHER,
                *pipes,
                CHROMIUM,
                *_FLAGS,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        try:
            (page,) = self._pages()
            self._attach(page)
        except BaseException:
            self.close()
            raise

    def _attach(self, page):
        self._session = None
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def new_tab(self, *, is_stranger=False, context=None):
        """Open another tab, of somebody else if that is wanted, and go there.

        :param context: whose tab it is, as ``Target.getTargetInfo`` has it.
        :return: what :meth:`switch` takes to come back.
        """
        before, self._session = self._session, None
        more = {} if context is None else {"browserContextId": context}
        if is_stranger:
            made = self.call("Target.createBrowserContext")
            more["browserContextId"] = made["browserContextId"]
        made = self.call("Target.createTarget", url="about:blank", **more)
        self._attach(made["targetId"])
        return before

    def switch(self, tab):
        """Go to another tab; return what leads back."""
        before, self._session = self._session, tab
        return before

    def _pages(self):
        found = self.call("Target.getTargets")["targetInfos"]
        return [each["targetId"] for each in found if each["type"] == "page"]

    def call(self, method, **parameters):
        """Have the browser do something, and return what it says."""
        self._ids += 1
        message = {"id": self._ids, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._ids:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    def _next(self):
        until = time.monotonic() + LONG
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], until - time.monotonic())
            assert ready, "the browser says nothing"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, *, width=1100, height=800, dark=False, scale=1):
        """Show a page, a file or an address, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        address = path if isinstance(path, str) else path.as_uri()
        self._load("Page.navigate", url=address)

    def reload(self):
        """Load the page again, and wait until it is there."""
        self._load("Page.reload")

    def _load(self, method, **parameters):
        self.events.clear()
        self.call(method, **parameters)
        while not any(map(self._is_load, self.events)):
            self.events.append(self._next())

    def _is_load(self, event):
        is_load = event.get("method") == "Page.loadEventFired"
        return is_load and event.get("sessionId") == self._session

    def evaluate(self, script):
        """Return what a line of script comes to on the page."""
        done = self.call(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait_for(self, script):
        """Wait until a line of script comes to something on the page; return it."""
        until = time.monotonic() + LONG
        pause = threading.Event()
        while time.monotonic() < until:
            found = self.evaluate(f"(v => v instanceof Node || v)({script})")
            if found:
                return found
            pause.wait(0.05)
        text = self.evaluate("document.body.innerText")
        raise AssertionError(f"never: {script}\n{text}")

    def type(self, text):
        """Type text where the focus is."""
        self.call("Input.insertText", text=text)

    def press(self, key, code=0):
        """Press a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def click(self, selector):
        """Click on an element."""
        box = self.evaluate(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box[0],
                y=box[1],
                button="left",
                clickCount=1,
            )

    def screenshot(self, path):
        """Save a picture of the whole page."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))
        return path

    def complaints(self):
        """Return what the console says is wrong, and what was loaded besides."""
        wrong = []
        for event in self.events:
            if event.get("sessionId") != self._session:
                continue  # of another tab
            method, told = event.get("method"), event.get("params", {})
            if method in ("Log.entryAdded", "Runtime.exceptionThrown"):
                wrong.append(told)
            if method == "Runtime.consoleAPICalled":
                wrong.append(told["args"])
            if method == "Network.requestWillBeSent":
                url = told["request"]["url"]
                # Pictures of the browser's own, as in the field of a date.
                wrong += [] if url.startswith("data:image/svg+xml;base64") else [url]
        return wrong[1:] if wrong and str(wrong[0]).startswith("file:") else wrong

    def close(self):
        """End it."""
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        try:
            self._process.wait(LONG)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(LONG)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()
