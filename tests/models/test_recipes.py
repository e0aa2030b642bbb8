"""The recipes of docs/providers.rst, run as they are printed.

The packages of the clouds are the real ones. The servers that they ask for tokens, and
the models, are on loopback.
"""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.aws_signature import signature_of
from support.raw_server import RawServer

from syncagent.testing import FakeServer

pytestmark = pytest.mark.slow

RECIPES = Path(__file__).parents[2] / "docs/recipes"
ENTRA_TOKEN = "eyJhbGciOi.for-azure.signature"
GOOGLE_TOKEN = "ya29.for-vertex"
AWS = {
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE01",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class TokenServer(RawServer):
    """Hand out tokens, as the services of Azure and Google do."""

    def respond(self, handler, body):
        if "/identity" in handler.path:
            token = {"access_token": ENTRA_TOKEN, "expires_on": int(time.time()) + 3600}
        else:
            token = {"access_token": GOOGLE_TOKEN, "expires_in": 3600}
        return 200, {}, {**token, "token_type": "Bearer", "resource": "any"}


def cook(name, server, tmp_path, **environment):
    """Run a recipe, and return its lines and the requests that it sent."""
    recipe = RECIPES / name
    copy = tmp_path / name
    copy.write_text(recipe.read_text().replace("/run/secrets", str(tmp_path)))
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, str(copy)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), server.requests


def check_signature(request, service):
    """Assert that AWS would take the signature of *request*."""
    kind, _, rest = request.headers["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    access, _, scope = parts["Credential"].partition("/")
    assert (kind, access) == ("AWS4-HMAC-SHA256", AWS["AWS_ACCESS_KEY_ID"])
    assert scope.endswith(f"/eu-west-1/{service}/aws4_request")
    names, secret = parts["SignedHeaders"], AWS["AWS_SECRET_ACCESS_KEY"]
    signed = ("POST", request.path, request.headers, request.body, scope, names)
    assert signature_of(*signed, secret) == parts["Signature"]


def test_a_key_from_a_vault(tmp_path):
    """The function is asked for the key."""
    (tmp_path / "openai").write_text("sk-of-today\n")
    with FakeServer(["Hello."]) as server:
        lines, [request] = cook(
            "key_from_a_vault.py", server, tmp_path, OPENAI_BASE_URL=server.base_url
        )
    assert lines == ["Hello."]
    assert request.headers["authorization"] == "Bearer sk-of-today"


def test_azure_with_entra(tmp_path):
    """A token goes into Authorization, not into the header for keys."""
    pytest.importorskip("azure.identity")
    with FakeServer(["Hello."]) as server, TokenServer() as tokens:
        lines, [request] = cook(
            "azure_entra.py",
            server,
            tmp_path,
            AZURE_OPENAI_ENDPOINT=server.url_of("azure"),
            IDENTITY_ENDPOINT=tokens.url.removesuffix("/v1") + "/identity",
            IDENTITY_HEADER="secret-of-the-host",
        )
    assert lines == ["Hello."]
    assert request.headers["authorization"] == f"Bearer {ENTRA_TOKEN}"
    assert "api-key" not in request.headers


def service_account(tmp_path, token_uri):
    """Write the file of a service account, and return its path."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": "p1",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "agent@p1.iam.example",
        "token_uri": token_uri,
    }
    path = tmp_path / "account.json"
    path.write_text(json.dumps(account))
    return path


def test_vertex(tmp_path):
    """One token for Gemini and for Claude, fetched once."""
    pytest.importorskip("google.auth")
    with FakeServer(["Hello.", "Bonjour."]) as server, TokenServer() as tokens:
        token_uri = tokens.url.removesuffix("/v1") + "/token"
        lines, requests = cook(
            "vertex.py",
            server,
            tmp_path,
            GOOGLE_APPLICATION_CREDENTIALS=str(service_account(tmp_path, token_uri)),
            VERTEX_BASE_URL=server.url_of("vertex"),
            VERTEX_ANTHROPIC_BASE_URL=server.url_of("vertex-anthropic"),
        )
        assert len(tokens.requests) == 1
    assert lines == ["Hello.", "Bonjour."]
    assert {each.headers["authorization"] for each in requests} == {
        f"Bearer {GOOGLE_TOKEN}"
    }
    gemini, claude = requests
    assert "model" not in gemini.payload
    assert claude.path.endswith("/models/claude-sonnet-5-5:streamRawPredict")
    assert claude.payload["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in claude.payload


def test_bedrock_with_signatures(tmp_path):
    """The credentials of the environment sign every request."""
    pytest.importorskip("botocore")
    with FakeServer(["Hello.", "Hi."]) as server:
        lines, requests = cook(
            "bedrock.py",
            server,
            tmp_path,
            ANTHROPIC_BEDROCK_BASE_URL=server.url_of("bedrock-anthropic"),
            AWS_BEDROCK_BASE_URL=server.url_of("bedrock-responses"),
            **AWS,
        )
    assert lines == ["Hello.", "Hi."]
    for request in requests:
        check_signature(request, "bedrock")


def test_bedrock_with_a_token(tmp_path):
    """The key is a signed address, made on this machine."""
    pytest.importorskip("aws_bedrock_token_generator")
    with FakeServer(["Hello."]) as server:
        lines, [request] = cook(
            "bedrock_token.py",
            server,
            tmp_path,
            AWS_BEDROCK_BASE_URL=server.url_of("bedrock"),
            **AWS,
        )
    assert lines == ["Hello."]
    kind, _, token = request.headers["authorization"].partition(" bedrock-api-key-")
    assert kind == "Bearer"
    assert b"X-Amz-Signature=" in base64.b64decode(token)


def test_claude_platform_on_aws(tmp_path):
    """A signature, and the header of the workspace."""
    pytest.importorskip("botocore")
    with FakeServer(["Hello."]) as server:
        lines, [request] = cook(
            "claude_on_aws.py",
            server,
            tmp_path,
            ANTHROPIC_AWS_BASE_URL=server.url_of("bedrock-anthropic"),
            ANTHROPIC_AWS_WORKSPACE_ID="wrkspc_1",
            **AWS,
        )
    assert lines == ["Hello."]
    assert request.headers["anthropic-workspace-id"] == "wrkspc_1"
    check_signature(request, "aws-external-anthropic")


def test_a_gateway(tmp_path):
    """Two keys, each in its header."""
    with FakeServer(["Hello."]) as server:
        lines, [request] = cook(
            "gateway.py",
            server,
            tmp_path,
            OPENAI_API_KEY="sk-of-the-provider",
            GATEWAY_URL=server.base_url,
            GATEWAY_TOKEN="of-the-gateway",
        )
    assert lines == ["Hello."]
    assert request.headers["authorization"] == "Bearer sk-of-the-provider"
    assert request.headers["cf-aig-authorization"] == "Bearer of-the-gateway"
    assert request.headers["http-referer"] == "https://my-app.example"
