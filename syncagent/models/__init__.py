"""Models by name, one class for each wire dialect.

=======================  ===============================================================
:mod:`~.endpoint`        one provider: its address, its quirks, its key
:mod:`~.endpoints`       all providers, by name
:mod:`~.compatible`      those that are compatible with Chat Completions
:mod:`~.clouds`          Azure, Vertex, Bedrock, and others with addresses of your own
:mod:`~.model`           a model: a dialect, an address, a key, and a transport
:mod:`~.response`        the response of a model, in events
:mod:`~.dialects`        the classes, one for each wire dialect
:mod:`~.names`           strings such as ``openai:gpt-5-mini``
:mod:`~.local`           a real small model on this machine
:mod:`~.prices`          prices of tokens
=======================  ===============================================================
"""

from ..providers.quirks import Quirks
from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .endpoint import Endpoint, UrlPart
from .endpoints import register_endpoint
from .model import Model
from .names import find_model
from .prices import PRICES, Price, cost

__all__ = [
    "Anthropic",
    "Endpoint",
    "Gemini",
    "Model",
    "OpenAIChat",
    "OpenAIResponses",
    "PRICES",
    "Price",
    "Quirks",
    "UrlPart",
    "cost",
    "find_model",
    "register_endpoint",
]
