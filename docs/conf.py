"""Sphinx settings: every warning is an error, every example is run."""

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

import syncagent

PUBLIC = syncagent._MODULE_OF

project = "syncagent"
author = "The syncagent developers"
copyright = "2026, the syncagent developers"
version = release = syncagent.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "changes.d"]
html_theme = "furo"
html_title = f"syncagent {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]

# The modules of these engines import them; the documentation is built without.
autodoc_mock_imports = ["dramatiq", "rq"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}

# Names of the standard library and of type hints; no network is used to look them up.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(threading|logging|collections|concurrent|contextvars|types|signal|time|os|socket"
        r"|ssl|weakref)(\..*)?",
    ),
    ("py:.*", r"(str|int|float|bool|dict|list|tuple|None|object|type|BaseException)"),
    ("py:.*", r"(Exception|ValueError|TypeError|RuntimeError|TimeoutError|OSError)"),
    ("py:.*", r"(AssertionError|KeyboardInterrupt|Callable|Iterator|TracebackType)"),
    (
        "py:.*",
        r"(Signals|Link|CallbackLink|Generation|Origin|Path|PathLike|LogRecord"
        r"|ConversationRecord|Era|HTTPAuth|OnError|RequestRefused|WayBack|Cancel|Record"
        r"|Progress)",
    ),
    ("py:.*", r"(Any|Final|(typing\.)?Literal.*|(dict|tuple|list)\[.*)"),
    ("py:.*", r"(requests|msgspec|http|flask|django|contextlib|uuid)(\..*)?"),
    # Private names in signatures and among bases.
    (
        "py:.*",
        r"syncagent\.(_closeable|_deps|asking|background|conversation|functions|run|schemas"
        r"|stores|mcp|models\.(model|limiter)|tools\.raw|tools\.context|integrations\.web)\..*",
    ),
    ("py:.*", r"syncagent\.(cancel\.\w+|logs\.\w+|transport\.\w+)\..*"),
    ("py:.*", r"syncagent\.(messages|events|interrupts)\._\w+"),
    ("py:.*", r"syncagent\.testing\.mcp\.\w+\..*"),
    ("py:.*", r"syncagent\.models\.model\.RunModel"),
    ("py:.*", r"syncagent\.providers\..*Dialect"),
    ("py:.*", r"syncagent\.transcript\.turns\.(User|Assistant)Turn"),
    # Types of type checkers; with them a signature shows aliases by their names.
    ("py:.*", r"(.*\.)?(Unpack|\w+Arguments|Deps|ShownDeps|Value|_T)"),
    ("py:.*", r"(.*\.)?(CallReceipt|RunModel|Passage)"),
    ("py:.*", r"MCPServerConfig|ApprovalPolicy|ToolsOfServers|OnDisconnect|UUID|_F"),
    ("py:.*", r"(Key|AuthBase|Cancel|Progress|RunOptions|OnBusy|ClaimFolder|AnyTool)"),
    ("py:.*", r"(_BatchRecord|_Agents|concurrent\.futures\..*)"),
    ("py:.*", r"(abc\.ABC|(syncagent\.tools\.tool\.)?_[PR]|.*ParamSpec.*|typing\.~_P)"),
]


def setup(app):
    """Trim included code, and find public names wherever they are documented."""
    _hide_overloads()
    app.connect("doctree-read", _trim)
    app.connect("missing-reference", _find_public_name)


def _hide_overloads():
    """Show the parameters of the function itself where overloads only refer to them."""
    analyze = ModuleAnalyzer.analyze

    def analyze_without(analyzer):
        analyze(analyzer)
        analyzer.overloads = {
            name: signatures
            for name, signatures in analyzer.overloads.items()
            if not any("Unpack" in str(each) for each in signatures)
        }

    ModuleAnalyzer.analyze = analyze_without


def _trim(app, doctree):
    """Show no empty lines below code that is a part of a file."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = text = block.astext().rstrip("\n")
        block.children = []
        block += nodes.Text(text)


def _find_public_name(app, env, node, contnode):
    """Link ``Rule`` and ``syncagent.Rule`` to ``syncagent.interrupts.Rule``.

    A public name has two addresses, and this documentation describes it at one of them.
    """
    if node.get("refdomain") != "py":
        return None
    parts = node["reftarget"].split(".")
    first = next((n for n, part in enumerate(parts) if part in PUBLIC), None)
    if first is None:
        return None
    name = ".".join(parts[first:])
    objects = env.domains["py"].objects
    for target in (f"syncagent.{name}", f"syncagent.{PUBLIC[parts[first]]}.{name}"):
        if target in objects:
            found = objects[target]
            return make_refnode(
                app.builder,
                node["refdoc"],
                found.docname,
                found.node_id,
                contnode,
                target,
            )
    return None
