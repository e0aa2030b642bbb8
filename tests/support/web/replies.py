"""The responses of the tests' provider: the prompt is the name of a talk."""

from syncagent.testing import Send, Stall, Status, call, say

#: How many pieces a long talk has.
LONG_TALK = 3000

TALKS = {
    "hello": say("Hello."),
    # Says something, and then nothing more until the client hangs up.
    "stall": say("Once upon a time", acts=[Send(3), Stall()]),
    # Accepts the request, and says nothing at all.
    "silence": say("never", acts=[Stall()]),
    "long": say("word " * LONG_TALK),
    # More than the buffers of a connection hold, and more than those of waitress.
    "flood": say(call("flood", {"pieces": 50})),
    "deluge": say(call("flood", {"pieces": 250})),
    "tool": say(call("work")),
    "endless tool": say(call("work", {"seconds": 600.0})),
    "approval": say(call("launch", {"where": "the moon"})),
    "secret": say(call("pay")),
    "question": say(call("inquire")),
    "failure": say(
        "never", acts=[Status(400, "internal host dbhost, key sk-12345678")]
    ),
}


def reply_to(request):
    """Return what is said to a request, by its first words; after tools, the end."""
    messages = request.payload["messages"]
    if messages[-1]["role"] == "tool":
        return say(f"It is done: {messages[-1]['content']}")
    said = next(m for m in messages if m["role"] == "user")["content"]
    if not isinstance(said, str):
        said = said[0]["text"]
    return TALKS[said]
