"""Servers with and without TLS, and connections that do not outlive their test."""

import pytest
from certificates import Certificates
from harness import Server

from syncagent.transport import Transport, close_idle

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


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


@pytest.fixture
def make_transport(certificates):
    """Make transports that trust the servers."""
    return lambda **settings: Transport(verify=certificates.authority, **settings)


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Neither the environment nor another test's connections have a say."""
    for name in (*PROXY_VARIABLES, *map(str.upper, PROXY_VARIABLES), *CA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    yield
    close_idle()
