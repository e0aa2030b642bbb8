"""Providers and servers that are compatible with OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..providers.quirks import Quirks
from .endpoint import Endpoint

__all__ = ["COMPATIBLE", "COMPATIBLE_ENDPOINTS"]

#: Nearly all servers that are compatible with OpenAI's still have the old name of this
#: field, know no refusals, and continue the beginning of a response.
COMPATIBLE: Final = Quirks(
    field_names={"max_completion_tokens": "max_tokens"},
    has_refusals=False,
    prefill="continues",
)


def _chat(
    name: str,
    base_url: str,
    *,
    needs_key: bool = True,
    example: str = "",
    field_names: Mapping[str, str | None] | None = None,
    **quirks: Any,
) -> Endpoint:
    upper = name.upper().replace("-", "_")
    return Endpoint(
        name,
        "openai-chat",
        base_url,
        (f"{upper}_API_KEY",),
        (f"{upper}_BASE_URL",),
        needs_key,
        example,
        msgspec.structs.replace(
            COMPATIBLE,
            field_names={**COMPATIBLE.field_names, **(field_names or {})},
            **quirks,
        ),
        default_path=urlsplit(base_url).path,
    )


COMPATIBLE_ENDPOINTS: Final = (
    _chat("openrouter", "https://openrouter.ai/api/v1", example="openai/gpt-6-luna"),
    _chat(
        "groq",
        "https://api.groq.com/openai/v1",
        example="openai/gpt-oss-120b",
        field_names={"response_format": None},  # not for all models, nor beside tools
    ),
    _chat(
        "deepseek",
        "https://api.deepseek.com/v1",
        example="deepseek-v4-flash",
        field_names={"response_format": None},  # it takes no schema there
    ),
    _chat(
        "mistral",
        "https://api.mistral.ai/v1",
        example="mistral-small-latest",
        field_names={"seed": "random_seed", "stream_options": None},
        has_short_ids=True,
    ),
    _chat(
        "ollama", "http://127.0.0.1:11434/v1", needs_key=False, example="qwen3:latest"
    ),
    _chat("vllm", "http://127.0.0.1:8000/v1", needs_key=False, example="Qwen/Qwen3-8B"),
    _chat("lmstudio", "http://127.0.0.1:1234/v1", needs_key=False, example="qwen3-8b"),
)
