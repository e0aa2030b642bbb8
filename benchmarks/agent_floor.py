"""The loop that one writes by hand, with requests, sseclient-py and json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import requests
import sseclient

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


def _add_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.get(part["index"])
    if call is None:
        calls[part["index"]] = part
        del part["index"]
    else:
        call["function"]["arguments"] += part["function"]["arguments"]
