"""Public signatures: who reads one, or an editor, sees every argument."""

import ast
import re

from source import MODULES, listed, parse

#: Annotations of ``**name`` that say which arguments there are.
EXPLICIT = re.compile(r"Unpack\[\w+(\[\w+\])?\]|_P\.kwargs|str")

#: The arguments of a function of the user's own, which its hints describe.
OF_USERS = {
    "syncagent.cli.tui.Terminal.__call__",
    "syncagent.functions.llm_chat.LlmChat.__call__",
    "syncagent.functions.llm_chat.LlmChat.prompt",
    "syncagent.functions.llm_function.LlmFunction.__call__",
    "syncagent.functions.llm_function.LlmFunction.start",
    "syncagent.functions.llm_function.LlmFunction.stream",
    "syncagent.transport.user_code.call_user_code",
}
#: Methods that a library calls in its own way, and receivers of Django's signals.
OF_LIBRARIES = {
    "syncagent.integrations.django.checks.check_settings",
    "syncagent.integrations.django.conf.forget_views",
    "syncagent.integrations.django.databases.close_reader",
    "syncagent.integrations.django.management.commands.syncagent.Command.handle",
    "syncagent.integrations.django.management.commands.syncagent_cancel.Command.handle",
    "syncagent.integrations.django.management.server_command.ServerCommand.handle",
    "syncagent.integrations.django.models.StoreEntry.delete",
    "syncagent.integrations.django.models.StoreEntry.save_base",
    "syncagent.integrations.django.tables.migrate_store",
    "syncagent.transport.adapter.CancellableAdapter.init_poolmanager",
    "syncagent.transport.adapter.CancellableAdapter.proxy_manager_for",
    "syncagent.transport.body.Body.__init__",
    "syncagent.transport.body.Response.read",
    "syncagent.transport.body.Response.read1",
    "syncagent.transport.body.Response.read_chunked",
    "syncagent.transport.session.CancellableSession.send",
}
#: The fields of a JSON object, which differ from provider to provider.
OF_JSON = {"syncagent.providers.dialect.without_none"}


def is_public(name):
    return not name.startswith("_") or name.endswith("__")


def public_functions(tree, prefix):
    """Yield dotted name and node of the public functions and methods of a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            if is_public(node.name):
                yield f"{prefix}.{node.name}", node
        elif isinstance(node, ast.ClassDef):
            if is_public(node.name):
                yield from public_functions(node, f"{prefix}.{node.name}")
        else:  # such as an "if" at the level of the module
            yield from public_functions(node, prefix)


def open_ended(tree, module):
    """Yield the public functions that take just any keyword argument."""
    for name, node in public_functions(tree, module):
        rest = node.args.kwarg
        if rest is None:
            continue
        annotation = "" if rest.annotation is None else ast.unparse(rest.annotation)
        if not EXPLICIT.fullmatch(annotation):
            yield name


def test_public_signatures_name_their_arguments():
    """A parameter is explicit, or one of the shared ones in ``_arguments.py``."""
    found = {
        name
        for module, path in MODULES.items()
        for name in open_ended(parse(path), module)
    }
    allowed = OF_USERS | OF_LIBRARIES | OF_JSON
    assert not found - allowed, listed(sorted(found - allowed))
    assert not allowed - found, listed(sorted(allowed - found))


def test_what_counts_as_explicit():
    """Names and types do; ``Any``, ``object`` and nothing at all do not."""
    source = """
class Public:
    def bare(self, **settings): ...
    def anything(self, **settings: Any): ...
    def objects(self, **settings: object): ...
    def named(self, **settings: Unpack[AgentArguments[Deps]]): ...
    def texts(self, **arguments: str): ...
    def _private(self, **settings: Any): ...
class _Private:
    def anything(self, **settings: Any): ...
if True:
    def late(**settings: Any): ...
"""
    assert list(open_ended(ast.parse(source), "m")) == [
        "m.Public.bare",
        "m.Public.anything",
        "m.Public.objects",
        "m.late",
    ]
