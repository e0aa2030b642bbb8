"""The classes of models that every contract test covers, one for each dialect."""

from syncagent.models import Anthropic, Gemini, OpenAIChat, OpenAIResponses

CLASSES = [OpenAIChat, OpenAIResponses, Anthropic, Gemini]
