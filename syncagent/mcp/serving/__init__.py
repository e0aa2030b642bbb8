"""Our own MCP server: tools and agents for the clients of other programs.

============================  ========================================================
:mod:`~.service`              the service: what clients may call
:mod:`~.published`            tools and agents as MCP tools, and their results
:mod:`~.requests`             requests of a client, and the errors that refuse them
:mod:`~.call_round`           one round of a call, and the state between two
:mod:`~.tool_calls`           a call of a function
:mod:`~.agent_calls`          a call of an agent
:mod:`~.call_services`        progress, questions and sub-agents for a tool
:mod:`~.questions`            the questions of a call, in both eras
:mod:`~.elicitation`          questions as forms, and their answers
:mod:`~.call_state`           the state that a client keeps between two rounds
:mod:`~.running`              the calls that run, each on a thread of its own
:mod:`~.session`              the messages of a client on pipes
:mod:`~.pipes`                the bytes of a client on pipes
:mod:`~.stdio`                one client on standard input and output
:mod:`~.http`                 requests over HTTP, without a framework
============================  ========================================================
"""

from .service import MCPService, serve_stdio

__all__ = ["MCPService", "serve_stdio"]
