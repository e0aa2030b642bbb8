"""Nothing in the package blocks without a bound or is known to be unsafe."""

import ast

from source import MODULES, listed, nodes, nodes_of

#: Calls that never belong in the package, and why.
BANNED = {
    "time.sleep": "sleep on the token",
    "asyncio": "there is no event loop",
    "urllib3.Retry": "its back-off cannot be cancelled",
    "Retry": "its back-off cannot be cancelled",
}
#: Imports by which a banned call could get another name.
BANNED_IMPORTS = {"asyncio", "time.sleep", "urllib3.Retry", "urllib3.util.Retry"}
#: The modules for callers who have an event loop of their own.
WITH_LOOP = {
    "syncagent.integrations.procrastinate",
    "syncagent.integrations.web.asgi",
}
#: Methods that block for ever when they are called without a timeout.
BLOCKING = {"wait", "get", "join", "acquire", "result", "select", "communicate"}
#: Receivers that may be waited for: a token ends every wait; get() of a context
#: variable does not wait.
ALLOWED = ("token", "ended", "run_id")
#: Objects with a shutdown() that are not sockets.
OURS = {"self", "self._registry", "handle", "runs"}
#: Lines that break a rule, each a different one.
BAD_LINES = [
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
]
#: Lines that look alike and have a bound or a token.
GOOD_LINES = [
    "token.wait()",
    "self._token.wait()",
    "queue.get(timeout=1)",
    "lock.acquire(timeout=left)",
    "lock.acquire(blocking=False)",
    "', '.join(names)",
    "settings.get('name')",
    "duplicate.shutdown(socket.SHUT_RDWR)",
]


def dotted(node):
    """Return ``a.b.c`` for such an expression, the last name for any other."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def is_bounded(call):
    """True for a call that has a timeout, or that does not block at all."""
    return bool(call.args) or any(
        word.arg in {"timeout", "blocking", "block"} for word in call.keywords
    )


def offences(tree_nodes, is_cli=False):
    """Yield every broken rule with its line."""
    for node in tree_nodes:
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
    if receiver == "duplicate":  # of a descriptor: a plain socket
        return True
    return "SHUT_RDWR" in ast.unparse(call) and not {"raw", "response", "ssl"} & set(
        receiver.split(".")
    )


def is_endless_wait(receiver, method, call):
    return (
        method in BLOCKING and not is_bounded(call) and not receiver.endswith(ALLOWED)
    )


def test_no_banned_call():
    """Nothing blocks without the token or a bound, prints, or drops TLS."""
    found = [
        f"{module}:{line}: {what}"
        for module in MODULES
        for line, what in offences(nodes_of(module), is_cli=".cli" in module)
    ]
    assert not found, listed(found)


def test_no_banned_import():
    """No module imports a function that it must not call."""
    found = []
    for module, node in nodes(ast.Import, ast.ImportFrom):
        base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        banned = {base + alias.name for alias in node.names} & BANNED_IMPORTS
        if banned and not (module in WITH_LOOP and banned == {"asyncio"}):
            found.append(f"{module}:{node.lineno}: {banned}")
    assert not found, listed(found)


def test_the_rules_can_fail():
    """Every rule finds its offender, and accepts a line with a bound or a token."""
    missed = [line for line in BAD_LINES if not list(offences(walk(line)))]
    assert not missed, listed(missed)
    refused = [line for line in GOOD_LINES if list(offences(walk(line)))]
    assert not refused, listed(refused)


def walk(line):
    return list(ast.walk(ast.parse(line)))
