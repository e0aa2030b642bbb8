"""Signatures of AWS, checked by a server that computes them by hand."""

import pickle
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from support.aws_signature import signature_of
from support.raw_server import RawServer

from syncagent.exceptions import AuthenticationFailed, ConfigurationError
from syncagent.models import OpenAIChat, find_model
from syncagent.models.aws import SigV4
from syncagent.models.credentials import Credentials
from syncagent.transport import Retries

SECRETS = {"AKIDEXAMPLE01": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
TOKEN = "session-token-0123456789/abc=="
OK = b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}'
SOON = Retries(limit=2, first_delay=0.001)


class Aws(RawServer):
    """A server that takes requests with a right signature only."""

    def __init__(self, region="eu-central-1", token=None, busy=0):
        super().__init__()
        self.region, self.token, self.busy = region, token, busy
        self.problems = []

    def respond(self, handler, body):
        """Refuse what AWS would refuse."""
        problem = self.find_problem(handler, self.requests[-1], body)
        self.problems.append(problem)
        if problem:
            return 401, {"x-amzn-errortype": problem}, {"message": "no"}
        if len(self.requests) <= self.busy:
            return 503, {}, {"message": "busy"}
        return 200, {}, OK

    def find_problem(self, handler, headers, body):
        kind, _, rest = headers["authorization"].partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        access, _, scope = parts["Credential"].partition("/")
        date, region, service, end = scope.split("/")
        names = parts["SignedHeaders"]
        if (kind, end, service) != ("AWS4-HMAC-SHA256", "aws4_request", "bedrock"):
            return "IncompleteSignature"
        sent = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        age = datetime.now(timezone.utc) - sent.replace(tzinfo=timezone.utc)
        if abs(age) > timedelta(minutes=5) or not headers["x-amz-date"].startswith(
            date
        ):
            return "SignatureExpired"
        if headers.get("x-amz-security-token") != self.token or access not in SECRETS:
            return "UnrecognizedClientException"
        needed = {"host", "content-type", "x-amz-date", "x-amz-content-sha256"}
        if not needed <= set(names.split(";")) or "user-agent" in names:
            return "MissingHeaders"
        signed = (handler.command, handler.path, headers, body, scope, names)
        is_right = signature_of(*signed, SECRETS[access]) == parts["Signature"]
        is_right = is_right and region == self.region
        return "" if is_right else "InvalidSignatureException"


def credentials(access="AKIDEXAMPLE01", secret=None, token=None):
    """Return credentials as botocore has them."""
    secret = secret or SECRETS["AKIDEXAMPLE01"]
    return SimpleNamespace(access_key=access, secret_key=secret, token=token)


def text_of(server, auth, name="m", **settings):
    """Return the text of a response to a signed request."""
    settings = {"base_url": server.url, "stream": False, "retries": SOON, **settings}
    return OpenAIChat(name, auth=auth, **settings).respond("hi 你好").message.text


@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_signed_request_is_accepted(token):
    """With and without the token of a session."""
    with Aws(token=token) as server:
        auth = SigV4("bedrock", "eu-central-1", credentials=credentials(token=token))
        assert text_of(server, auth) == "ok"
    assert server.problems == [""]


def test_the_path_is_signed():
    """Names of models have colons and slashes in them."""
    with Aws() as server:
        auth = SigV4("bedrock", "eu-central-1", credentials=credentials())
        url = f"{server.url}/model/us.anthropic.x-v1%3A0/a b"
        assert text_of(server, auth, base_url=url) == "ok"


def test_each_attempt_is_signed():
    """A retry has its own signature."""
    with Aws(busy=2) as server:
        auth = SigV4("bedrock", "eu-central-1", credentials=credentials())
        assert text_of(server, auth) == "ok"
    assert server.problems == [""] * 3


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ({"region": "us-east-1"}, "InvalidSignatureException"),
        ({"credentials": credentials(secret="wrong" * 8)}, "InvalidSignatureException"),
        ({"credentials": credentials("AKIDOTHER00001")}, "UnrecognizedClientException"),
        ({"credentials": credentials(token=TOKEN)}, "UnrecognizedClientException"),
    ],
)
def test_a_wrong_signature_is_refused(auth, problem):
    """The server of this test can tell; it is asked twice, as the key may be old."""
    auth = {"region": "eu-central-1", "credentials": credentials(), **auth}
    with Aws() as server:
        with pytest.raises(AuthenticationFailed, match=problem) as caught:
            text_of(server, SigV4("bedrock", **auth))
    assert server.problems == [problem] * 2
    assert caught.value.status == 401


def test_expired_credentials_are_renewed():
    """AWS answers 403 then; a file may have others by now."""
    found = [credentials("AKIDOTHER00001"), credentials()]

    class Files(SigV4):
        def _freeze(self):
            return found[0]

        def refresh(self):
            del found[0]

    class Expiring(Aws):
        def respond(self, handler, body):
            status, headers, said = super().respond(handler, body)
            if status == 401:
                status, headers = 403, {"x-amzn-errortype": "ExpiredTokenException"}
            return status, headers, said

    with Expiring() as server:
        assert text_of(server, Files("bedrock", "eu-central-1")) == "ok"
    assert len(server.requests) == 2


def test_credentials_are_frozen_for_each_attempt():
    """They may be renewed between key and token."""
    frozen = []

    class Renewable:
        def get_frozen_credentials(self):
            frozen.append(credentials())
            return frozen[-1]

    with Aws(busy=1) as server:
        auth = SigV4("bedrock", "eu-central-1", credentials=Renewable())
        assert text_of(server, auth) == "ok"
    assert len(frozen) == 2


def test_credentials_of_the_environment(monkeypatch, tmp_path):
    """And those that are there after a 401."""
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE01")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an-old-one")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    with Aws(token=TOKEN) as server:
        auth = SigV4("bedrock")
        with pytest.raises(AuthenticationFailed):
            text_of(server, auth)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["AKIDEXAMPLE01"])
        assert text_of(server, auth) == "ok"
    # The first call has tried twice; the second one began with the credentials that
    # the first had found after its 401, and then found those of now.
    assert server.problems == ["InvalidSignatureException"] * 3 + [""]


def test_no_credentials(monkeypatch, tmp_path):
    """The error says so, and nothing is sent."""
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        SigV4("bedrock")
    with Aws() as server:
        with pytest.raises(AuthenticationFailed, match="no AWS credentials"):
            text_of(server, SigV4("bedrock", "eu-central-1"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://bedrock-runtime.eu-west-3.amazonaws.com/openai/v1",
            "bedrock eu-west-3",
        ),
        ("https://bedrock-mantle.us-east-2.api.aws/v1", "bedrock-mantle us-east-2"),
        ("https://gateway.example/v1", "bedrock ap-south-1"),
    ],
)
def test_models_of_bedrock_are_signed_without_a_key(url, expected, monkeypatch):
    """Service and region are in the address, or the region is in the environment."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    model = find_model("bedrock:openai.gpt-oss-120b-1:0", base_url=url)
    assert repr(model._auth._auth) == f"<SigV4 {expected}>"
    model = find_model("bedrock:x", base_url=url, api_key="key-0123456789")
    assert isinstance(model._auth, Credentials)


def test_a_signed_model_of_bedrock(monkeypatch):
    """All of it, with the credentials of the environment."""
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE01")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["AKIDEXAMPLE01"])
    for name in ("SESSION_TOKEN", "BEARER_TOKEN_BEDROCK", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    with Aws() as server:
        settings = {"base_url": server.url, "stream": False}
        model = find_model("bedrock:openai.gpt-oss-120b-1:0", **settings)
        assert model.respond("hi").message.text == "ok"


def test_secrets_are_neither_shown_nor_pickled():
    """The secret key is never sent; the token is."""
    auth = SigV4("bedrock", "eu-central-1", credentials=credentials(token=TOKEN))
    assert repr(auth) == "<SigV4 bedrock eu-central-1>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(auth)
    with RawServer((400, {}, {"message": f"bad token {TOKEN}"})) as server:
        model = OpenAIChat("m", base_url=server.url, auth=auth)
        with pytest.raises(Exception, match="bad token") as caught:
            model.respond("hi")
    assert TOKEN not in str(caught.value) + caught.value.body
    assert TOKEN in model.secrets


def test_botocore_is_imported_late():
    """It takes a tenth of a second; without it the error names the extra."""
    program = """
import sys
import syncagent.models.aws as aws
assert "botocore" not in sys.modules
sys.modules["botocore"] = None
try:
    aws.SigV4("bedrock", "r")
except aws.ConfigurationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'pip install "syncagent[aws]"' in done.stdout
