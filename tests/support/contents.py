"""The whole content of messages, which their short repr() cuts."""

import msgspec


def json_of(messages) -> str:
    """Return a message, or messages, as JSON."""
    return msgspec.json.encode(messages, enc_hook=repr).decode()
