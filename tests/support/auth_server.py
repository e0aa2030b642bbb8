"""An MCP server with its authorization server, and a person with a browser."""

import base64
import json
import secrets
import ssl
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import requests

PRM = "/.well-known/oauth-protected-resource/mcp"
AS = "/.well-known/oauth-authorization-server/as"


class AuthServer(ThreadingHTTPServer):
    """Both servers on one port: ``/mcp`` wants tokens, ``/as`` gives them.

    A test changes its answers with :attr:`documents` and :attr:`answers`, and stops a
    request with :attr:`gates`, all by path.

    :param certificate: the files of a certificate and its key, for TLS.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
            scheme = "https"
        self.base = f"{scheme}://127.0.0.1:{self.server_port}"
        self.url, self.issuer = f"{self.base}/mcp", f"{self.base}/as"
        #: Paths in the order of the requests, and the forms of token requests.
        self.paths, self.forms, self.registrations = [], [], []
        self.authorizations = []
        self.gates = {}
        self.resource = {
            "resource": self.url,
            "authorization_servers": [self.issuer],
        }
        self.metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
        #: JSON by path; a test may add, change and remove.
        self.documents = {PRM: self.resource, AS: self.metadata}
        #: Functions of a handler and a body by path, in place of what is done here.
        self.answers = {}
        #: The answer of the token endpoint, beside the tokens.
        self.token_fields = {"token_type": "Bearer", "expires_in": 3600}
        self.redirect_fields = {}
        self.has_refresh = True
        #: Access tokens with their scopes, and refresh tokens.
        self.valid, self.refreshes, self.codes = {}, set(), {}
        #: The scopes that the MCP server wants.
        self.wants = ()
        self.challenge = f'Bearer resource_metadata="{self.base}{PRM}"'
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        for gate in self.gates.values():
            gate.open()
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, *_):
        """Print nothing: clients that go away are what the tests are about."""

    def count(self, path):
        """Return how many requests *path* had."""
        return self.paths.count(path)

    def new_token(self, scope):
        """Return a new pair of tokens as the token endpoint does."""
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.valid[access] = tuple((scope or "").split())
        tokens = {"access_token": access, **self.token_fields}
        if scope:
            tokens["scope"] = scope
        if self.has_refresh:
            self.refreshes.add(refresh)
            tokens["refresh_token"] = refresh
        return tokens


class Handler(BaseHTTPRequestHandler):
    """Answers as its server says."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or each response takes 40 ms

    def do_GET(self):
        """Answer documents, and the page of the login."""
        self.answer(b"")

    def do_POST(self):
        """Answer the other endpoints."""
        self.answer(self.rfile.read(int(self.headers["Content-Length"] or 0)))

    def answer(self, body):
        """Answer a request."""
        server, path = self.server, urlsplit(self.path).path
        with server.lock:
            server.paths.append(path)
        if path in server.gates:
            server.gates[path].stop_here()
        if path in server.answers:
            server.answers[path](self, body)
        elif path in server.documents:
            self.send(200, server.documents[path])
        elif path == "/mcp":
            self.mcp()
        elif path == "/as/authorize":
            self.authorize()
        elif path == "/as/register":
            server.registrations.append(json.loads(body))
            self.send(
                201,
                {
                    **json.loads(body),
                    "client_id": f"client-{len(server.registrations)}",
                },
            )
        elif path == "/as/token":
            self.token(dict(parse_qsl(body.decode())))
        else:
            self.send(404, {})

    def mcp(self):
        """Answer with 200 if the token has the scopes, else with a challenge."""
        server = self.server
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        if token not in server.valid:
            self.send(401, {}, {"WWW-Authenticate": server.challenge})
        elif set(server.wants) - set(server.valid[token]):
            scope = " ".join(server.wants)
            challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
            self.send(403, {}, {"WWW-Authenticate": challenge})
        else:
            self.send(200, {"ok": True})

    def authorize(self):
        """Send the browser back with a code."""
        query = {name: v[0] for name, v in parse_qs(urlsplit(self.path).query).items()}
        self.server.authorizations.append(query)
        code = secrets.token_urlsafe(16)
        self.server.codes[code] = query
        back = {"code": code, "state": query["state"], **self.server.redirect_fields}
        back = {name: value for name, value in back.items() if value is not None}
        place = f"{query['redirect_uri']}?{urlencode(back)}"
        self.send(302, {}, {"Location": place})

    def token(self, form):
        """Give tokens for a code, once, or for a refresh token, once."""
        server = self.server
        server.forms.append({**form, "authorization": self.headers["Authorization"]})
        with server.lock:
            if form["grant_type"] == "client_credentials":
                return self.send(200, server.new_token(form.get("scope")))
            if form["grant_type"] == "refresh_token":
                if form["refresh_token"] not in server.refreshes:
                    return self.send(400, {"error": "invalid_grant"})
                server.refreshes.discard(form["refresh_token"])
                return self.send(200, server.new_token(None))
            asked = server.codes.pop(form["code"], None)
            digest = sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked is None or asked["code_challenge"] != challenge:
                return self.send(400, {"error": "invalid_grant"})
            return self.send(200, server.new_token(asked.get("scope")))

    def send(self, status, body, headers=None):
        """Send a response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Print nothing."""


class Person:
    """Logs in: visits the page, and follows the redirect back to the program.

    :param verify: the path of a CA bundle.
    """

    def __init__(self, verify=True):
        self.verify = verify
        self.pages = []
        #: The page that the program shows in the end.
        self.shown = []

    def __call__(self, page):
        self.pages.append(page)
        response = requests.get(page, verify=self.verify, timeout=10)
        self.shown.append((response.status_code, response.text))


def call(auth, url, token, transport):
    """Make one request as a connection does; return its status."""
    attempt = 0
    while True:
        used = auth.headers(url, token)
        with transport.open("POST", url, token=token, json={}, headers=used) as answer:
            status, headers = answer.status, answer.headers
            answer.finish()
        if status not in (401, 403):
            return status
        if not auth.handle(url, status, headers, token, used=used, attempt=attempt):
            return status
        attempt += 1
