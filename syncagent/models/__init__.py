"""Models by name, one class for each wire dialect.

=======================  ===============================================================
:mod:`~.endpoints`       providers: their addresses, and where their keys come from
:mod:`~.model`           a model: a dialect, an address, a key, and a transport
:mod:`~.credentials`     keys, functions that return them, auth objects
:mod:`~.aws`             signatures of AWS
:mod:`~.response`        the response of a model, in events
:mod:`~.dialects`        the classes, one for each wire dialect
:mod:`~.names`           strings such as ``openai:gpt-5-mini``
:mod:`~.local`           a real small model on this machine
:mod:`~.prices`          prices of tokens
=======================  ===============================================================
"""

from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .model import Model
from .names import find_model
from .prices import PRICES, Price, cost

__all__ = [
    "Anthropic",
    "Gemini",
    "Model",
    "OpenAIChat",
    "OpenAIResponses",
    "PRICES",
    "Price",
    "cost",
    "find_model",
]
