"""The Model Context Protocol: tools of other programs, and ours for them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .connection import ProgressReport as ProgressReport
    from .connection import ServerInfo as ServerInfo
    from .content import CallResult as CallResult
    from .content import ResourceContent as ResourceContent
    from .oauth import ClientCredentials as ClientCredentials
    from .oauth import OAuth as OAuth
    from .questions import ElicitRequest as ElicitRequest
    from .questions import Sampling as Sampling
    from .server import MCPServer as MCPServer
    from .servers import MCPServers as MCPServers
    from .serving import MCPService as MCPService
    from .serving import serve_stdio as serve_stdio
    from .settings import MCPTimeouts as MCPTimeouts
    from .settings import Restart as Restart
    from .tools import MCPTools as MCPTools
    from .variables import ConfigInput as ConfigInput

#: The public names and the modules that define them, loaded when they are first used.
_MODULE_OF = {
    "CallResult": "content",
    "ClientCredentials": "oauth",
    "ConfigInput": "variables",
    "ElicitRequest": "questions",
    "MCPServer": "server",
    "MCPServers": "servers",
    "MCPService": "serving",
    "MCPTimeouts": "settings",
    "MCPTools": "tools",
    "OAuth": "oauth",
    "ProgressReport": "connection",
    "ResourceContent": "content",
    "Restart": "settings",
    "Sampling": "questions",
    "ServerInfo": "connection",
    "serve_stdio": "serving",
}

__all__ = sorted(_MODULE_OF)

# Hidden from type checkers: a module with __getattr__ has every name to them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return list(__all__)
