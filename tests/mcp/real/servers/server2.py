"""A server on mcp 2.x: both eras, the client chooses."""

from typing import Annotated

from journal import Journal
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    Image,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
)
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from serving import arguments, serve
from tools import Person, add_texts, add_tools

MODERN = "2026-07-28"

args = arguments()
journal = Journal(args.journal)
server = MCPServer("real2", instructions="Count, and be kind.", log_level="ERROR")
add_tools(server, Context, Image, journal)
add_texts(server)


def person() -> Elicit[Person]:
    journal.write("began ask_name")
    return Elicit("Who are you?", Person)


def opinion() -> Sample:
    text = TextContent(type="text", text="Say something.")
    return Sample([SamplingMessage(role="user", content=text)], max_tokens=50)


def folders() -> ListRoots:
    return ListRoots()


@server.tool()
def ask_name(answer: Annotated[ElicitationResult[Person], Resolve(person)]) -> str:
    """Ask the user for a name."""
    if not isinstance(answer, AcceptedElicitation):
        return answer.action
    return f"{answer.data.name} is {answer.data.age}"


@server.tool()
def sample(answer: Annotated[CreateMessageResult, Resolve(opinion)]) -> str:
    """Ask the client's model."""
    return f"the model said: {answer.content.text}"


@server.tool()
def roots(found: Annotated[ListRootsResult, Resolve(folders)]) -> str:
    """List the client's roots."""
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool to the list."""

    def grown() -> str:
        """A tool that came later."""
        return "late"

    server.add_tool(grown)
    if ctx.protocol_version == MODERN:
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "grown"


if args.transport == "stdio":
    server.run("stdio")
elif args.transport == "sse":
    serve(server.sse_app(), args.port)
else:
    app = server.streamable_http_app(
        json_response=args.json, stateless_http=args.stateless
    )
    serve(app, args.port)
