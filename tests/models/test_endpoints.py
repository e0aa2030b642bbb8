"""Addresses, faces and registration of endpoints."""

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.models import (
    Anthropic,
    Endpoint,
    Gemini,
    OpenAIChat,
    OpenAIResponses,
    Quirks,
    UrlPart,
    find_model,
    register_endpoint,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.options import Options
from syncagent.providers.dialect import Dialect

KEY = {"api_key": "key-of-nobody"}
ENVIRONMENT = {
    "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/",
    "ANTHROPIC_FOUNDRY_RESOURCE": "mine",
    "GOOGLE_CLOUD_PROJECT": "p1",
    "AWS_REGION": "eu-west-1",
    "CLOUDFLARE_ACCOUNT_ID": "acc",
    "DATABRICKS_HOST": "https://dbc.example",
    "SNOWFLAKE_ACCOUNT": "org-acc",
}
VERTEX = "https://aiplatform.googleapis.com/v1/projects/p1/locations/global"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com"
ADDRESSES = {
    "azure:gpt": (OpenAIResponses, "https://mine.openai.azure.com/openai/v1/responses"),
    "azure-chat:gpt": (
        OpenAIChat,
        "https://mine.openai.azure.com/openai/v1/chat/completions",
    ),
    "azure-anthropic:claude-sonnet-5-5": (
        Anthropic,
        "https://mine.services.ai.azure.com/anthropic/v1/messages",
    ),
    "vertex:gemini-3.8-flash": (
        Gemini,
        f"{VERTEX}/publishers/google/models/gemini-3.8-flash"
        ":streamGenerateContent?alt=sse",
    ),
    "vertex:claude-sonnet-5-5@20260901": (
        Anthropic,
        f"{VERTEX}/publishers/anthropic/models/claude-sonnet-5-5@20260901"
        ":streamRawPredict",
    ),
    "vertex:gpt-6-luna": (OpenAIResponses, f"{VERTEX}/publishers/openai/v1/responses"),
    "vertex:google/gemini-3.8-flash": (
        OpenAIChat,
        f"{VERTEX}/endpoints/openapi/chat/completions",
    ),
    "bedrock:openai.gpt-oss-120b-1:0": (
        OpenAIChat,
        f"{BEDROCK}/openai/v1/chat/completions",
    ),
    "bedrock:us.anthropic.claude-sonnet-5-5-v1:0": (
        Anthropic,
        f"{BEDROCK}/anthropic/v1/messages",
    ),
    "bedrock:arn:aws:bedrock:us-east-1:1:profile/us.anthropic.claude-opus-5": (
        Anthropic,
        f"{BEDROCK}/anthropic/v1/messages",
    ),
    "bedrock:openai.gpt-5.6-sol": (OpenAIResponses, f"{BEDROCK}/openai/v1/responses"),
    "cloudflare:@cf/openai/gpt-oss-120b": (
        OpenAIChat,
        "https://api.cloudflare.com/client/v4/accounts/acc/ai/v1/chat/completions",
    ),
    "databricks:mine": (
        OpenAIChat,
        "https://dbc.example/serving-endpoints/chat/completions",
    ),
    "snowflake:claude-sonnet-5-5": (
        OpenAIChat,
        "https://org-acc.snowflakecomputing.com/api/v2/cortex/v1/chat/completions",
    ),
    "perplexity:perplexity/sonar": (
        OpenAIResponses,
        "https://api.perplexity.ai/v1/responses",
    ),
}


@pytest.fixture
def environment(monkeypatch):
    """The variables that make up the addresses of clouds."""
    for name in ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("name", ADDRESSES)
def test_where_requests_to_a_cloud_go(name, environment):
    """The name of the cloud, and of the model, choose the address and the dialect."""
    model_class, url = ADDRESSES[name]
    model = find_model(name, **KEY)
    assert type(model) is model_class
    assert model._url() == url


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
    ],
)
def test_locations_of_vertex(location, host, environment):
    """Global and the multi-regions have hosts of their own."""
    environment.setenv("GOOGLE_CLOUD_LOCATION", location)
    url = find_model("vertex:gemini-3.8-flash", **KEY).base_url
    assert url.startswith(f"https://{host}/v1/projects/p1/locations/{location}/")


def test_a_whole_response_has_another_path(environment):
    """The endpoint's paths are for streamed and for whole responses."""
    model = find_model("vertex:claude-sonnet-5-5", stream=False, **KEY)
    assert model._url().endswith("/models/claude-sonnet-5-5:rawPredict")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("azure:x", "AZURE_OPENAI_ENDPOINT"),
        ("vertex:gemini-3.8-flash", "GOOGLE_CLOUD_PROJECT"),
        ("bedrock:x", "AWS_REGION"),
        ("snowflake:x", "SNOWFLAKE_ACCOUNT"),
    ],
)
def test_a_part_of_the_address_that_is_missing(name, variable, environment):
    """The error names the variable, and the argument."""
    for each in ENVIRONMENT:
        environment.delenv(each)
    with pytest.raises(ConfigurationError, match=rf"{variable}.*base_url="):
        find_model(name, **KEY)
    base_url = "https://gateway.example/v1"
    assert find_model(name, base_url=base_url, **KEY).base_url == base_url


@pytest.mark.parametrize(
    "value", ["evil.example/#", "a@evil.example/", "a\\", "..", "{}"]
)
@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("azure-anthropic:x", "ANTHROPIC_FOUNDRY_RESOURCE"),
        ("bedrock:x", "AWS_REGION"),
        ("cloudflare:x", "CLOUDFLARE_ACCOUNT_ID"),
        ("snowflake:x", "SNOWFLAKE_ACCOUNT"),
        ("vertex:x", "GOOGLE_CLOUD_LOCATION"),
        ("vertex:x", "GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_a_part_of_the_address_cannot_change_the_host(
    name, variable, value, environment
):
    """Or a variable could send the key to another server."""
    environment.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=variable):
        find_model(name, **KEY)


@pytest.mark.parametrize("value", ["p-1", "p_2.eu-west-1", "example.com:p-3"])
def test_a_part_of_the_address_as_clouds_name_things(value, environment):
    """Old projects of Google have a domain before a colon."""
    environment.setenv("GOOGLE_CLOUD_PROJECT", value)
    assert f"/projects/{value}/" in find_model("vertex:x", **KEY).base_url


@pytest.mark.parametrize(
    "address",
    [
        "https://mine.openai.azure.com",
        "https://mine.openai.azure.com/openai/v1",
        "https://mine.openai.azure.com/openai/v1/",
        "https://mine.openai.azure.com/openai/v1/responses",
    ],
)
def test_the_address_of_azure_in_any_form(address):
    """With or without its path, as portals and manuals print it."""
    model = find_model("azure:x", base_url=address, **KEY)
    assert model.base_url == "https://mine.openai.azure.com/openai/v1"


# -- issuers -----------------------------------------------------------------------


def test_the_origin_is_the_endpoint():
    """Endpoints with the same dialect are different issuers."""
    issuers = {
        find_model(f"{name}:x", **KEY).dialect.issuer
        for name in ("openai", "openai-chat", "groq", "mistral", "deepseek")
    }
    assert issuers == {"openai", "openai-chat", "groq", "mistral", "deepseek"}


def test_another_address_is_another_origin():
    """A gateway may pass requests to any provider; its address is not shown."""
    usual = find_model("openai:x", **KEY).dialect.issuer
    first = find_model("openai:x", base_url="https://a.example/v1", **KEY)
    again = find_model("openai:x", base_url="https://a.example/v1/", **KEY)
    other = find_model("openai:x", base_url="https://b.example/v1", **KEY)
    assert usual == "openai"
    assert first.dialect.issuer == again.dialect.issuer != other.dialect.issuer
    assert first.dialect.issuer.startswith("openai@")
    assert "example" not in first.dialect.issuer


# -- registration ------------------------------------------------------------------


@pytest.fixture
def registered(monkeypatch):
    """Register endpoints, and forget them afterwards."""
    before = dict(ENDPOINTS)
    yield register_endpoint
    ENDPOINTS.clear()
    ENDPOINTS.update(before)


ACME = Endpoint(
    "acme",
    "openai-chat",
    "https://{zone}.acme.example/v1",
    key_variables=("ACME_API_KEY",),
    url_parts={"zone": UrlPart(("ACME_ZONE",), default="eu")},
    quirks=Quirks(field_names={"max_completion_tokens": "max_tokens"}),
    example="acme-1",
)


def test_an_endpoint_of_ones_own(registered, monkeypatch):
    """A registered endpoint works in model strings, with its quirks and its key."""
    registered(ACME)
    registered(ACME)  # again: modules may be imported twice
    with pytest.raises(ConfigurationError, match="set ACME_API_KEY"):
        find_model("acme:acme-1")
    monkeypatch.setenv("ACME_API_KEY", "key-of-nobody")
    model = find_model("acme:acme-1", max_tokens=5)
    assert model._url() == "https://eu.acme.example/v1/chat/completions"
    assert b'"max_tokens":5' in model.dialect.build_payload(
        "acme-1", "hi", options=model.options
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "openai"}, "has the name 'openai'"),
        ({"name": "local"}, "not 'local'"),
        ({"name": "Acme Inc"}, "lower-case letters"),
        ({"dialect": "grpc"}, "no dialect is called 'grpc'"),
        ({"base_url": "acme.example"}, "begin with https://"),
        ({"base_url": ""}, "begin with https://"),
        ({"base_url": "https://{town}.acme.example"}, "got 'town'"),
        ({"base_url": "https://{.acme.example"}, "must name its url_parts"),
        ({"paths": ("/{name}", "/{model}")}, "got 'name'"),
    ],
)
def test_an_endpoint_that_cannot_work(changes, problem, registered):
    """It is refused, and nothing is registered."""
    before = dict(ENDPOINTS)
    values = {name: getattr(ACME, name) for name in ACME.__struct_fields__}
    with pytest.raises(ConfigurationError, match=problem):
        registered(Endpoint(**{**values, **changes}))
    assert before == ENDPOINTS


@pytest.mark.parametrize("name", sorted(ENDPOINTS))
def test_every_endpoint_makes_payloads(name, environment):
    """With its own example, whatever its quirks are."""
    endpoint = ENDPOINTS[name]
    model = find_model(f"{name}:{endpoint.example}", **KEY)
    assert isinstance(model.dialect, Dialect)
    assert model.endpoint.name == name
    payload = model.dialect.build_payload(model.name, "hi", options=Options(system="s"))
    assert b"hi" in payload
