"""A server on mcp 1.x: the legacy era only."""

from journal import Journal
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import SamplingMessage, TextContent
from serving import arguments, serve
from tools import Person, add_texts, add_tools

args = arguments()
journal = Journal(args.journal)
server = FastMCP(
    "real1",
    instructions="Count, and be kind.",
    log_level="ERROR",
    stateless_http=args.stateless,
    json_response=args.json,
)
add_tools(server, Context, Image, journal)
add_texts(server)


@server.tool()
async def ask_name(ctx: Context) -> str:
    """Ask the user for a name."""
    journal.write("began ask_name")
    answer = await ctx.elicit("Who are you?", Person)
    if answer.action != "accept":
        return answer.action
    return f"{answer.data.name} is {answer.data.age}"


@server.tool()
async def sample(ctx: Context) -> str:
    """Ask the client's model."""
    text = TextContent(type="text", text="Say something.")
    message = SamplingMessage(role="user", content=text)
    answer = await ctx.session.create_message(messages=[message], max_tokens=50)
    return f"the model said: {answer.content.text}"


@server.tool()
async def roots(ctx: Context) -> str:
    """List the client's roots."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool to the list."""

    def grown() -> str:
        """A tool that came later."""
        return "late"

    server.add_tool(grown)
    await ctx.session.send_tool_list_changed()
    return "grown"


if args.transport == "stdio":
    server.run("stdio")
else:
    is_sse = args.transport == "sse"
    serve(server.sse_app() if is_sse else server.streamable_http_app(), args.port)
