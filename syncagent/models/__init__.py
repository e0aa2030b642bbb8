"""Models by name, one class for each wire dialect.

=======================  ===============================================================
:mod:`~.endpoint`        one provider: its address, its quirks, its key
:mod:`~.endpoints`       all providers, by name
:mod:`~.compatible`      those that are compatible with Chat Completions
:mod:`~.clouds`          Azure, Vertex, Bedrock, and others with addresses of your own
:mod:`~.model`           a model: a dialect, an address, a key, and a transport
:mod:`~.credentials`     keys, functions that return them, auth objects
:mod:`~.aws`             signatures of AWS
:mod:`~.response`        the response of a model, in events
:mod:`~.dialects`        the classes, one for each wire dialect
:mod:`~.names`           strings such as ``openai:gpt-6-luna``
:mod:`~.fallback`        several models as one
:mod:`~.limiter`         one line for the requests of many threads
:mod:`~.bucket`          an allowance that flows in at a steady rate
:mod:`~.rate_headers`    rate limits in the headers of responses
:mod:`~.budget`          a limit on cost, tokens or calls of many runs
:mod:`~.local`           a real small model on this machine
:mod:`~.known`           the table of known models: prices and context windows
:mod:`~.prices`          find the price of a model in that table
=======================  ===============================================================
"""

from ..providers.quirks import ModelFamily, Quirks
from .dialects import Anthropic, Gemini, OpenAIChat, OpenAIResponses
from .endpoint import Endpoint, UrlPart
from .endpoints import register_endpoint
from .fallback import Fallback
from .model import Model
from .names import find_model
from .prices import Price, Tier, cost

__all__ = [
    "Anthropic",
    "Endpoint",
    "Fallback",
    "Gemini",
    "Model",
    "ModelFamily",
    "OpenAIChat",
    "OpenAIResponses",
    "Price",
    "Quirks",
    "Tier",
    "UrlPart",
    "cost",
    "find_model",
    "register_endpoint",
]
