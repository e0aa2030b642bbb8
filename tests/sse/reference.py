"""A parser of event streams, written from the specification and for nothing but that.

It goes through https://html.spec.whatwg.org/multipage/server-sent-events.html step by
step, on the whole stream at once. It is slow and has no limits.
"""

import re

from syncagent.sse import ServerSentEvent


def reference(stream):
    """Return the events of a whole stream of bytes."""
    return _interpreted(stream).dispatched


def reference_end(stream):
    """Return the last event id and the delay of a stream, up to its last blank line.

    By the specification a delay counts at once, even if its block never ends. Nothing
    in a block counts before its end here, as it is for ids.
    """
    interpreter = _interpreted(stream)
    return interpreter.last_event_id, interpreter.reconnection_time


def _interpreted(stream):
    text = stream.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")
    interpreter = _Interpreter()
    for line in _lines(text):
        interpreter.take(line)
    return interpreter


def _lines(text):
    """Yield the lines that have an end; what comes after the last is no line."""
    line, index = "", 0
    while index < len(text):
        character = text[index]
        if character == "\r" and text[index + 1 : index + 2] == "\n":
            index += 1
        if character in "\r\n":
            yield line
            line = ""
        else:
            line += character
        index += 1


class _Interpreter:
    def __init__(self):
        self.data = ""
        self.event_type = ""
        self.last_event_id_buffer = ""
        self.last_event_id = ""
        self.reconnection_time_buffer = None
        self.reconnection_time = None
        self.dispatched = []

    def take(self, line):
        if line == "":
            self.dispatch()
        elif line.startswith(":"):
            pass
        elif ":" in line:
            field, value = line.split(":", 1)
            self.process(field, value[1:] if value.startswith(" ") else value)
        else:
            self.process(line, "")

    def process(self, field, value):
        if field == "event":
            self.event_type = value
        elif field == "data":
            self.data += value + "\n"
        elif field == "id" and "\0" not in value:
            self.last_event_id_buffer = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            self.reconnection_time_buffer = int(value)

    def dispatch(self):
        self.last_event_id = self.last_event_id_buffer
        self.reconnection_time = self.reconnection_time_buffer
        if self.data != "":
            self.dispatched.append(
                ServerSentEvent(
                    self.data[:-1],
                    self.event_type or "message",
                    self.last_event_id_buffer,
                )
            )
        self.data = self.event_type = ""
