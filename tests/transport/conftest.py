"""Servers with and without TLS, and connections that do not outlive their test."""

import pytest
import trustme
from harness import Server

from syncagent.transport import Transport
from syncagent.transport.adapter import shared_adapter

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Certificates:
    """An authority, and what it has signed, as files."""

    def __init__(self, folder):
        authority = trustme.CA()
        self.authority = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.authority)
        self.server = self._issue(authority, folder / "server", "127.0.0.1")
        self.client = self._issue(authority, folder / "client", "me@example.org")

    def _issue(self, authority, path, name):
        issued = authority.issue_cert(name, "localhost")
        certificate, key = f"{path}.pem", f"{path}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server(certificates):
    server = Server(*certificates.server, certificates.authority)
    yield server
    server.close()


@pytest.fixture
def transport(certificates):
    """A transport that trusts the servers."""
    return Transport(verify=certificates.authority, retries=0)


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Neither the environment nor another test's connections have a say."""
    for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES), *CA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    yield
    shared_adapter().close()
