"""Nothing in the package blocks without a bound or is known to be unsafe."""

import ast

import pytest
from source import MODULES, parse

#: Calls that never belong into the package, and why.
BANNED = {
    "time.sleep": "sleep on the token",
    "asyncio": "there is no event loop",
    "urllib3.Retry": "its back-off cannot be cancelled",
    "Retry": "its back-off cannot be cancelled",
}
BANNED_IMPORTS = {"time.sleep", "urllib3.Retry", "urllib3.util.Retry"}
#: The one that serves those who have an event loop of their own.
WITH_LOOP = {"syncagent.integrations.web.asgi"}
#: Methods that block for ever when they are called without a timeout.
BLOCKING = {"wait", "get", "join", "acquire", "result", "select", "communicate"}
#: Waiting for a token is what a token is for; get() of a context variable is no wait.
ALLOWED = ("token", "ended", "run_id")
#: What has a shutdown() and is no socket.
OURS = {"self", "self._runtime", "handle", "runs"}


def dotted(node):
    """Return ``a.b.c`` for such an expression, the last name for any other."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def is_bounded(call):
    """Does the call say how long it waits, or not to block at all?"""
    return bool(call.args) or any(
        word.arg in {"timeout", "blocking", "block"} for word in call.keywords
    )


def offences(tree, is_cli=False):
    """Yield what is wrong with a module, with its line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        receiver, _, method = name.rpartition(".")
        if name in BANNED:
            yield node.lineno, f"{name}: {BANNED[name]}"
        if name == "print" and not is_cli:
            yield node.lineno, "print: only the command line prints"
        is_ours = receiver in OURS
        if method == "shutdown" and not is_ours and not is_plain_shutdown(node):
            yield node.lineno, f"{name}: may drop TLS; shut a plain duplicate down"
        if is_endless_wait(receiver, method, node):
            yield node.lineno, f"{name}() waits without a bound"


def is_plain_shutdown(call):
    """Sockets are shut down both ways, and only by these names."""
    receiver = dotted(call.func).rpartition(".")[0]
    return "SHUT_RDWR" in ast.unparse(call) and not {"raw", "response", "ssl"} & set(
        receiver.split(".")
    )


def is_endless_wait(receiver, method, call):
    return (
        method in BLOCKING and not is_bounded(call) and not receiver.endswith(ALLOWED)
    )


def test_no_banned_call():
    """Each module keeps the rules of the house."""
    found = [
        f"{module}:{line}: {offence}"
        for module, path in MODULES.items()
        for line, offence in offences(parse(path), is_cli=".cli" in module)
    ]
    assert found == []


def test_no_banned_import():
    """No module imports what it must not call."""
    for module, path in MODULES.items():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
                assert "asyncio" not in names or module in WITH_LOOP, module
            elif isinstance(node, ast.ImportFrom):
                imported = {f"{node.module}.{alias.name}" for alias in node.names}
                assert not imported & BANNED_IMPORTS, module


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "event.wait()",
        "queue.get()",
        "thread.join()",
        "lock.acquire()",
        "future.result()",
        "process.communicate()",
        "sock.shutdown(socket.SHUT_RD)",
        "response.raw.shutdown()",
        "self.response.raw.shutdown(socket.SHUT_RDWR)",
        "urllib3.Retry(3)",
        "print('hello')",
    ],
)
def test_the_rules_can_fail(line):
    """Every rule finds its offender."""
    assert list(offences(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "token.wait()",
        "self._token.wait()",
        "queue.get(timeout=1)",
        "lock.acquire(timeout=left)",
        "lock.acquire(blocking=False)",
        "', '.join(names)",
        "settings.get('name')",
        "duplicate.shutdown(socket.SHUT_RDWR)",
    ],
)
def test_the_rules_let_good_code_through(line):
    """What has a bound or a token is fine."""
    assert not list(offences(ast.parse(line)))
