"""The loop that one writes by hand, with requests, sseclient-py and json."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import requests
import sseclient
import urllib3
from requests.adapters import HTTPAdapter

NAME: Final = "by hand: requests, sseclient-py, json"
HEADERS: Final = {"Content-Type": "application/json", "Authorization": "Bearer none"}


def add(first: int, second: int) -> int:
    """Add two numbers.

    :param first: one of them.
    :param second: the other.
    """
    return first + second


NUMBER: Final = {"type": "integer"}
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"first": NUMBER, "second": NUMBER},
                "required": ["first", "second"],
            },
        },
    }
]


class HandWritten:
    """A model, tools and a conversation, as a careful person writes it."""

    def __init__(
        self,
        session: requests.Session,
        base_url: str,
        tools: list[dict[str, Any]] = TOOLS,
        functions: Mapping[str, Callable[..., Any]] = {"add": add},
        timeout: float | None = 60.0,
    ) -> None:
        self._session = session
        self._url = f"{base_url}/chat/completions"
        self._tools = tools
        self._functions = functions
        self._timeout = timeout
        self.messages: list[dict[str, Any]] = []

    def run(self, prompt: str) -> str:
        """Ask, call tools, again until the model is done."""
        self.messages.append({"role": "user", "content": prompt})
        while True:
            message = self._take_turn()
            self.messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                arguments = json.loads(call["function"]["arguments"])
                result = self._functions[call["function"]["name"]](**arguments)
                self.messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": call["id"],
                        "content": json.dumps(result),
                    }
                )

    def _take_turn(self) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": "fake",
            "messages": self.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._tools:
            payload["tools"] = self._tools
        with self._session.post(
            self._url,
            data=json.dumps(payload),
            headers=HEADERS,
            stream=True,
            timeout=self._timeout,
        ) as response:
            response.raise_for_status()
            return self._read(response)

    def _read(self, response: requests.Response) -> dict[str, Any]:
        texts: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        # To the end of it, not to [DONE]: only then is the connection kept.
        for event in sseclient.SSEClient(response.iter_content(None)).events():
            if event.data == "[DONE]":
                continue
            for choice in json.loads(event.data)["choices"]:
                delta = choice["delta"]
                if delta.get("content"):
                    texts.append(delta["content"])
                for part in delta.get("tool_calls") or ():
                    _add_call(calls, part)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if calls:
            message["tool_calls"] = list(calls.values())
        return message


class Stoppable(HandWritten):
    """The same, and another thread can end it, as a careful person writes that.

    ``response.close()`` would block until data comes, and ``close()`` of a socket does
    not wake a thread: the connection has to be shut down.
    """

    def __init__(self, base_url: str) -> None:
        super().__init__(requests.Session(), base_url, [], {}, timeout=None)
        self._adapter = _Noting()
        self._session.mount("http://", self._adapter)
        self._stopped = threading.Event()

    def run(self, prompt: str) -> str:
        try:
            return super().run(prompt)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            if not self._stopped.is_set():
                self._stopped.wait(60)  # before it would try again
            return ""
        finally:
            self._session.close()

    def wait_until_connected(self) -> None:
        """Block until there is a connection, and a little longer."""
        while not self._adapter.sockets:
            self._stopped.wait(0.001)
        self._stopped.wait(0.02)

    def stop(self) -> None:
        """End the run."""
        self._stopped.set()
        with suppress(OSError):
            self._adapter.sockets[-1].shutdown(socket.SHUT_RDWR)


class _Noting(HTTPAdapter):
    """Remembers the sockets of its connections."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        self.sockets: list[socket.socket] = []
        super().init_poolmanager(*args, **kwargs)
        sockets = self.sockets

        class Connection(urllib3.connection.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        class Pool(urllib3.HTTPConnectionPool):
            ConnectionCls = Connection

        self.poolmanager.pool_classes_by_scheme = {"http": Pool}


def _add_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.get(part["index"])
    if call is None:
        calls[part["index"]] = part
        del part["index"]
    else:
        call["function"]["arguments"] += part["function"]["arguments"]
