"""Sphinx settings: every warning is an error, every example is run."""

from docutils import nodes

import syncagent

project = "syncagent"
author = "The syncagent developers"
copyright = "2026, the syncagent developers"
version = release = syncagent.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"syncagent {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}

# Names of the standard library and of type hints; no network is used to look them up.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(threading|logging|collections|contextvars|types|signal|time|os|socket|ssl)"
        r"(\..*)?",
    ),
    ("py:.*", r"(str|int|float|bool|dict|list|tuple|None|object|type|BaseException)"),
    ("py:.*", r"(Exception|ValueError|TypeError|RuntimeError|TimeoutError|OSError)"),
    ("py:.*", r"(AssertionError|KeyboardInterrupt|Callable|Iterator|TracebackType)"),
    ("py:.*", r"(Signals|Link|CallbackLink|Generation|Origin|Path|PathLike|LogRecord)"),
    ("py:.*", r"(Any|Final|(typing\.)?Literal.*|(dict|tuple|list)\[.*)"),
    ("py:.*", r"(requests|msgspec|http|flask|django|contextlib)(\..*)?"),
    # Where documented names live inside the package.
    (
        "py:.*",
        r"syncagent\.(_clock|cancel\.\w+|logs\._\w+|transport\.\w+)\..*",
    ),
    ("py:.*", r"syncagent\.(messages|events|interrupts)\._\w+"),
    ("py:.*", r"syncagent\.(run\.Run|answers\.\w+|tools\.\w+\.\w*Signature)"),
    ("py:.*", r"syncagent\.(_closing\.Closing|run_stream\.RunEnd|pump\.Pump)"),
    ("py:.*", r"syncagent\.(stage\.\w+|subscriptions\.EventLog|serving\.\w+)"),
    ("py:.*", r"(abc\.ABC|(syncagent\.tools\.tool\.)?_[PR]|.*ParamSpec.*)"),
    ("py:.*", r"syncagent\.agent_view\.AgentView"),
    ("py:.*", r"syncagent\.(chat_)?functions\._\w+|typing\.~_P"),
    ("py:.*", r"syncagent\.function_agents\.\w+"),
    ("py:.*", r"syncagent\.integrations\.web\.recordings\.WebRecording"),
    ("py:.*", r"syncagent\.transcript\.(User|Assistant)Turn"),
]


def setup(app):
    """Show no empty lines below code that is a part of a file."""
    app.connect("doctree-read", _trim)


def _trim(app, doctree):
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = text = block.astext().rstrip("\n")
        block.children = []
        block += nodes.Text(text)
