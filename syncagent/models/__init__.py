"""Models by name, one class for each wire dialect.

=======================  ===============================================================
:mod:`~.endpoints`       providers: their addresses, and where their keys come from
:mod:`~.model`           a model: a dialect, an address, a key, and a transport
:mod:`~.response`        the response of a model, in events
:mod:`~.dialects`        the classes, one for each wire dialect
:mod:`~.names`           strings such as ``openai:gpt-6-luna``
:mod:`~.local`           a real small model on this machine
:mod:`~.known`           the table of known models: prices and context windows
:mod:`~.prices`          find the price of a model in that table
=======================  ===============================================================
"""

from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .model import Model
from .names import find_model
from .prices import Price, Tier, cost

__all__ = [
    "Anthropic",
    "Gemini",
    "Model",
    "OpenAIChat",
    "OpenAIResponses",
    "Price",
    "Tier",
    "cost",
    "find_model",
]
