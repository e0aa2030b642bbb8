"""Providers and servers that are compatible with OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..providers.families import UP_TO_HIGH, UP_TO_XHIGH
from ..providers.quirks import ModelFamily, Quirks
from .endpoint import Endpoint

__all__ = ["COMPATIBLE", "COMPATIBLE_ENDPOINTS"]

#: Models of many vendors, as open servers run them.
_OPEN: Final = (ModelFamily(efforts=("none", *UP_TO_HIGH)),)
#: Models that cannot stop thinking, at servers that reject the effort ``none``.
_GPT_OSS: Final = ModelFamily(names="gpt-oss", efforts=UP_TO_HIGH)
#: Models of many vendors behind a gateway, which translates all efforts.
_EVERY: Final = (ModelFamily(),)
#: The field of DeepSeek, which others have adopted.
_ON: Final = {"thinking": {"type": "enabled"}}
_OFF: Final = {"thinking": {"type": "disabled"}}

#: Nearly all compatible servers have the old name of this field and no refusals, and
#: continue the beginning of a response.
COMPATIBLE: Final = Quirks(
    field_names={"max_completion_tokens": "max_tokens"},
    families=_OPEN,
    has_refusals=False,
    prefill="continues",
)


def _chat(
    name: str,
    base_url: str,
    *,
    keys: tuple[str, ...] = (),
    urls: tuple[str, ...] = (),
    needs_key: bool = True,
    example: str = "openai/gpt-oss-120b",
    field_names: Mapping[str, str | None] | None = None,
    **quirks: Any,
) -> Endpoint:
    upper = name.upper().replace("-", "_")
    return Endpoint(
        name,
        "openai-chat",
        base_url,
        keys or (f"{upper}_API_KEY",),
        urls or (f"{upper}_BASE_URL",),
        needs_key,
        example,
        msgspec.structs.replace(
            COMPATIBLE,
            field_names={**COMPATIBLE.field_names, **(field_names or {})},
            **quirks,
        ),
        default_path=urlsplit(base_url).path,
    )


_VENDORS: Final = (
    _chat(
        "deepseek",
        "https://api.deepseek.com/v1",
        example="deepseek-v4-flash",
        field_names={"response_format": None},  # it takes no schema there
        families=(
            ModelFamily(
                names="deepseek-reasoner", rejects_tools="forced", efforts=(), on={}
            ),
            # DeepSeek maps these words to those of its models.
            ModelFamily(
                efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
                off=_OFF,
                rejects_tools="forced",
            ),
        ),
        thinking_field="reasoning_content",
        prefill="answers",  # except at its /beta
    ),
    _chat(
        "mistral",
        "https://api.mistral.ai/v1",
        example="mistral-small-latest",
        field_names={"seed": "random_seed", "stream_options": None},
        families=(
            ModelFamily(names="magistral", efforts=(), on={}),
            ModelFamily(efforts=("none", "high")),
        ),
        has_short_ids=True,
        has_reply_after_results=True,
        has_document_urls=True,
        prefill="prefix",
    ),
    _chat(
        "moonshot",
        "https://api.moonshot.ai/v1",
        keys=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"),
        example="kimi-k3",
        field_names={"max_completion_tokens": "max_completion_tokens"},
        families=(
            ModelFamily(names="moonshot", efforts=(), off={}, think=False),
            ModelFamily(
                names=r"kimi-k2\.[56]",
                efforts=(),
                on=_ON,
                off=_OFF,
                rejects_tools="forced",
            ),
            ModelFamily(names=r"kimi-k2", efforts=(), on={}, rejects_tools="forced"),
            ModelFamily(efforts=("low", "high", "max"), rejects_tools="forced"),
        ),
        thinking_field="reasoning_content",
        prefill="partial",
    ),
    _chat(
        "zai",
        "https://api.z.ai/api/paas/v4",
        example="glm-5.3",
        families=(
            ModelFamily(
                names=r"glm-(?:4|5(?:\.[01])?(?![.\d]))", efforts=(), on=_ON, off=_OFF
            ),
            ModelFamily(names=r"glm-5\.2", off=_OFF),
            ModelFamily(efforts=("low", "high", "max")),
        ),
        thinking_field="reasoning_content",
    ),
    _chat(
        "alibaba",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        keys=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
        example="qwen-plus",
        families=(
            ModelFamily(
                efforts=(), on={"enable_thinking": True}, off={"enable_thinking": False}
            ),
        ),
        prefill="partial",
    ),
    # xAI's Responses API keeps the thinking between requests: the endpoint xai.
    _chat(
        "xai-chat",
        "https://api.x.ai/v1",
        keys=("XAI_API_KEY",),
        example="grok-4.5",
        families=(
            ModelFamily(names="grok-3-mini", efforts=("low", "high")),
            ModelFamily(names=r"grok-4[.-]3", efforts=("none", *UP_TO_HIGH)),
            ModelFamily(names=r"grok-4[.-]5", efforts=UP_TO_HIGH),
            ModelFamily(
                names=r"grok-(?:[23]|4(?![.\d])|4\.[12]|code)", efforts=(), on={}
            ),
            ModelFamily(efforts=UP_TO_XHIGH),
        ),
    ),
    _chat(
        "meta",
        "https://api.meta.ai/v1",
        example="muse-spark-1.3",
        tool_choices=(),
    ),
)

_HOSTS: Final = (
    _chat(
        "groq",
        "https://api.groq.com/openai/v1",
        field_names={"response_format": None},  # not for all models, nor beside tools
        families=(
            _GPT_OSS,
            ModelFamily(
                names=r"qwen3(?!\.[89])",
                efforts=(),
                on={"reasoning_effort": "default"},
                off={"reasoning_effort": "none"},
            ),
            ModelFamily(names="llama|compound", efforts=(), off={}, think=False),
            *_OPEN,
        ),
    ),
    _chat("together", "https://api.together.ai/v1", example="zai-org/GLM-5.3"),
    _chat(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        example="accounts/fireworks/models/gpt-oss-120b",
    ),
    _chat(
        "cerebras",
        "https://api.cerebras.ai/v1",
        example="gpt-oss-120b",
        field_names={"max_completion_tokens": "max_completion_tokens"},
        families=(_GPT_OSS, *_OPEN),
    ),
    _chat("nvidia", "https://integrate.api.nvidia.com/v1"),
    _chat("nebius", "https://api.tokenfactory.nebius.com/v1"),
    _chat("sambanova", "https://api.sambanova.ai/v1", example="gpt-oss-120b"),
    _chat(
        "ovhcloud",
        "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
        example="gpt-oss-120b",
    ),
    _chat(
        "heroku",
        "https://us.inference.heroku.com/v1",
        keys=("HEROKU_INFERENCE_KEY",),
        urls=("HEROKU_INFERENCE_URL",),
        example="gpt-oss-120b",
    ),
    _chat(
        "ollama-cloud",
        "https://ollama.com/v1",
        keys=("OLLAMA_API_KEY",),
        example="gpt-oss:120b",
    ),
)

_GATEWAYS: Final = (
    _chat(
        "openrouter",
        "https://openrouter.ai/api/v1",
        example="openai/gpt-6-luna",
        families=(
            ModelFamily(efforts=("none", "minimal", "low", "medium", "high", "xhigh")),
        ),
        web_search="openrouter:web_search",
    ),
    _chat("huggingface", "https://router.huggingface.co/v1", keys=("HF_TOKEN",)),
    _chat(
        "vercel",
        "https://ai-gateway.vercel.sh/v1",
        keys=("AI_GATEWAY_API_KEY", "VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
        families=_EVERY,
    ),
    _chat("litellm", "http://127.0.0.1:4000/v1", needs_key=False, families=_EVERY),
)

_LOCAL: Final = (
    _chat(
        "ollama", "http://127.0.0.1:11434/v1", needs_key=False, example="qwen3:latest"
    ),
    _chat("vllm", "http://127.0.0.1:8000/v1", needs_key=False, example="Qwen/Qwen3-8B"),
    _chat("lmstudio", "http://127.0.0.1:1234/v1", needs_key=False, example="qwen3-8b"),
    _chat("llamacpp", "http://127.0.0.1:8080/v1", needs_key=False, example="qwen3-8b"),
)

COMPATIBLE_ENDPOINTS: Final = (*_VENDORS, *_HOSTS, *_GATEWAYS, *_LOCAL)
