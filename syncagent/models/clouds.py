"""Models that clouds serve: Azure, Google's Vertex, AWS Bedrock, and others.

Their addresses have parts of the user's own, such as a region, and their keys are often
tokens that expire. A cloud that speaks several dialects has one endpoint for each; the
plain name of the cloud chooses one of them by the model's name.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..providers.quirks import Quirks
from .compatible import COMPATIBLE
from .endpoint import Endpoint, UrlPart

__all__ = ["CLOUD_ENDPOINTS"]

#: Tokens of Microsoft Entra are JSON web tokens; keys are not.
_JWT: Final = "eyJ"

_AZURE: Final = Endpoint(
    "azure",
    "openai-responses",
    "",
    key_variables=("AZURE_OPENAI_API_KEY",),
    token_variables=("AZURE_OPENAI_AD_TOKEN",),
    token_prefixes=(_JWT,),
    url_variables=("AZURE_OPENAI_ENDPOINT",),
    default_path="/openai/v1",
    key_header="api-key",
    example="my-deployment",
    advice="pass api_key=, which may be a function that returns an Entra token",
)
_AZURE_ANTHROPIC: Final = Endpoint(
    "azure-anthropic",
    "anthropic",
    "https://{resource}.services.ai.azure.com/anthropic",
    key_variables=("ANTHROPIC_FOUNDRY_API_KEY",),
    token_prefixes=(_JWT,),
    url_variables=("ANTHROPIC_FOUNDRY_BASE_URL",),
    url_parts={"resource": UrlPart(("ANTHROPIC_FOUNDRY_RESOURCE",))},
    version="/v1",
    example="claude-sonnet-5-5",
    advice=_AZURE.advice,
)

_LOCATION: Final = UrlPart(("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"), "global")
_VERTEX: Final = "https://{host}/v1/projects/{project}/locations/{location}"


def _vertex(
    name: str,
    dialect: str,
    path: str,
    example: str,
    *,
    paths: tuple[str, str] | None = None,
    quirks: Quirks = Quirks(),  # noqa: B008 - it is frozen
    faces: dict[str, str] | None = None,
) -> Endpoint:
    return Endpoint(
        name,
        dialect,
        _VERTEX + path,
        url_variables=(f"{name.upper().replace('-', '_')}_BASE_URL",),
        url_parts={
            "host": msgspec.structs.replace(
                _LOCATION,
                form="{}-aiplatform.googleapis.com",
                forms={
                    "global": "aiplatform.googleapis.com",
                    "us": "aiplatform.us.rep.googleapis.com",
                    "eu": "aiplatform.eu.rep.googleapis.com",
                },
            ),
            "project": UrlPart(("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")),
            "location": _LOCATION,
        },
        key_header="Authorization",
        key_scheme="Bearer",
        example=example,
        paths=paths,
        quirks=quirks,
        faces=faces or {},
        advice="pass api_key=, a function that returns a token of google-auth",
    )


_REGION: Final = UrlPart(("AWS_REGION", "AWS_DEFAULT_REGION"))


def _bedrock(
    name: str,
    dialect: str,
    path: str,
    example: str,
    *,
    version: str = "",
    quirks: Quirks = Quirks(),  # noqa: B008 - it is frozen
    faces: dict[str, str] | None = None,
) -> Endpoint:
    is_anthropic = dialect == "anthropic"
    variable = "ANTHROPIC_BEDROCK_BASE_URL" if is_anthropic else "AWS_BEDROCK_BASE_URL"
    return Endpoint(
        name,
        dialect,
        "https://bedrock-runtime.{region}.amazonaws.com" + path,
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        url_variables=(variable,),
        url_parts={"region": _REGION},
        key_header="Authorization",
        key_scheme="Bearer",
        version=version,
        example=example,
        quirks=quirks,
        faces=faces or {},
        is_aws=True,
        needs_key=False,
    )


CLOUD_ENDPOINTS: Final = (
    _AZURE,
    msgspec.structs.replace(_AZURE, name="azure-chat", dialect="openai-chat"),
    _AZURE_ANTHROPIC,
    _vertex(
        "vertex",
        "gemini",
        "/publishers/google",
        "gemini-3.8-flash",
        quirks=Quirks(is_vertex=True),
        faces={
            r"claude-": "vertex-anthropic",
            r"gpt-(?!oss)": "vertex-responses",
            r"[^/]+/": "vertex-chat",
        },
    ),
    _vertex(
        "vertex-anthropic",
        "anthropic",
        "/publishers/anthropic",
        "claude-sonnet-5-5",
        paths=("/models/{model}:streamRawPredict", "/models/{model}:rawPredict"),
        quirks=Quirks(anthropic_version="vertex-2023-10-16"),
    ),
    _vertex(
        "vertex-responses", "openai-responses", "/publishers/openai/v1", "gpt-6-luna"
    ),
    _vertex(
        "vertex-chat",
        "openai-chat",
        "/endpoints/openapi",
        "google/gemini-3.8-flash",
        quirks=COMPATIBLE,
    ),
    _bedrock(
        "bedrock",
        "openai-chat",
        "/openai/v1",
        "openai.gpt-oss-120b-1:0",
        quirks=COMPATIBLE,
        # A region or "global" may stand before the name of the vendor, and the name of
        # an account's resource before both.
        faces={
            r"(?:arn:.*/)?(?:[a-z-]+\.)?anthropic\.": "bedrock-anthropic",
            r"(?:arn:.*/)?(?:[a-z-]+\.)?openai\.gpt-(?!oss)": "bedrock-responses",
        },
    ),
    _bedrock(
        "bedrock-anthropic",
        "anthropic",
        "/anthropic",
        "anthropic.claude-sonnet-5-5-v1:0",
        version="/v1",
    ),
    _bedrock(
        "bedrock-responses", "openai-responses", "/openai/v1", "openai.gpt-5.6-sol"
    ),
    Endpoint(
        "cloudflare",
        "openai-chat",
        "https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1",
        key_variables=("CLOUDFLARE_API_TOKEN",),
        url_variables=("CLOUDFLARE_BASE_URL",),
        url_parts={"account": UrlPart(("CLOUDFLARE_ACCOUNT_ID",))},
        example="@cf/openai/gpt-oss-120b",
        quirks=COMPATIBLE,
    ),
    Endpoint(
        "databricks",
        "openai-chat",
        "",
        key_variables=("DATABRICKS_TOKEN",),
        url_variables=("DATABRICKS_HOST",),
        default_path="/serving-endpoints",
        example="my-endpoint",
        quirks=COMPATIBLE,
    ),
    Endpoint(
        "snowflake",
        "openai-chat",
        "https://{account}.snowflakecomputing.com/api/v2/cortex/v1",
        key_variables=("SNOWFLAKE_TOKEN",),
        url_variables=("SNOWFLAKE_BASE_URL",),
        url_parts={"account": UrlPart(("SNOWFLAKE_ACCOUNT",))},
        example="claude-sonnet-5-5",
        quirks=COMPATIBLE,
    ),
)
