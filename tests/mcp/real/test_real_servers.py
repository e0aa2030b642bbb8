"""Real servers in both eras, on every transport: one client, the same results."""

import threading
import time

import pytest
from real_servers import MISSING, PYTHON
from support.threads import LONG, meanwhile, together

from syncagent import Cancelled, CancelToken

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.parametrize("variant", PYTHON, ids=repr, scope="module"),
]

#: Seconds for twenty calls on a busy machine: a second each would be a timer.
QUICK = 8.0


def text_of(result):
    return "".join(block.text for block in result.content)


class TestOrdinaryUse:
    def test_the_handshake_finds_era_and_names(self, variant, shared):
        """The era is found without a hint, and the server says who it is."""
        assert shared.state == "ready"
        assert shared.era == variant.found
        assert shared.info.name == f"real{variant.kind[-1]}"
        assert shared.instructions == "Count, and be kind."
        assert "tools" in shared.capabilities

    def test_tools_keep_their_schemas(self, shared):
        """All tools are listed, each with the schema of the server."""
        tools = {tool.name: tool for tool in shared.tools()}
        assert {"add", "count", "block", "ask_name"} <= set(tools)
        properties = tools["add"].spec.parameters["properties"]
        assert properties["a"] == {"title": "A", "type": "integer"}

    def test_a_call_has_text_and_structure(self, shared):
        """A number comes as text for the model and as data for programs."""
        result = shared.call("add", {"a": 2, "b": 3})
        assert text_of(result) == "5"
        assert result.structured == {"result": 5}
        assert not result.is_error

    def test_an_object_comes_as_structure(self, shared):
        """A structured result keeps its fields."""
        result = shared.call("weather", {"city": "Paris"})
        assert result.structured == {"city": "Paris", "degrees": 21.5}

    def test_a_picture_comes_as_bytes(self, shared):
        """An image block is decoded, and knows its type."""
        (image,) = shared.call("picture").content
        assert image.media_type == "image/png"

    def test_a_long_result_is_complete(self, shared):
        """Three megabytes arrive whole."""
        assert len(text_of(shared.call("big", {"size": 3_000_000}))) == 3_000_000

    def test_a_failing_tool_is_a_result(self, shared):
        """An exception in a tool, and an unknown tool, are no exception here."""
        assert shared.call("fail").is_error
        assert shared.call("add", {"a": "many", "b": 1}).is_error

    def test_an_unknown_tool_is_a_failed_call(self, shared):
        """Both versions of the package answer with a result that says so."""
        assert shared.call("no_such_tool").is_error

    def test_resources_and_prompts(self, shared):
        """Resources, templates and prompts are listed and read."""
        assert [each["uri"] for each in shared.resources()] == ["note://hello"]
        assert len(shared.templates()) == 1
        (content,) = shared.read("note://of/Ada")
        assert content.text == "the note of Ada"
        assert [each["name"] for each in shared.prompts()] == ["greet"]
        (message,) = shared.prompt("greet", name="Ada")
        assert "Please greet Ada." in str(message)

    def test_fifty_threads_share_one_server(self, shared):
        """Two hundred calls of fifty threads each get their own answer."""

        def work(number):
            for step in range(4):
                result = shared.call("add", {"a": number, "b": step})
                assert result.structured == {"result": number + step}

        together(*(lambda n=n: work(n) for n in range(50)), timeout=60)

    def test_twenty_calls_in_a_row_are_quick(self, shared):
        """A call costs milliseconds; no part of it waits for a timer."""
        began = time.monotonic()
        for number in range(20):
            shared.call("add", {"a": number, "b": 1})
        assert time.monotonic() - began < QUICK


class TestProgress:
    def test_each_step_is_reported(self, variant, shared):
        """Progress arrives in order, with its message, before the result."""
        if not variant.reports:
            pytest.skip("a JSON response has no room for progress")
        seen = []
        result = shared.call(
            "count", {"steps": 3, "seconds": 0.1}, on_progress=seen.append
        )
        assert text_of(result) == "counted to 3"
        assert [(each.progress, each.total) for each in seen] == [
            (1, 3),
            (2, 3),
            (3, 3),
        ]
        assert seen[0].message == "step 1"


class TestCancel:
    def test_the_server_sees_it_and_goes_on(self, variant, shared, journal):
        """The call ends at once, the tool is cancelled, the session answers on."""
        pid = shared.call("process").structured
        token = CancelToken()
        cancelled = threading.Event()

        def cancel():
            journal.wait_for("began count red")
            cancelled.set()
            token.cancel("enough")

        with meanwhile(cancel), pytest.raises(Cancelled):
            shared.call(
                "count", {"steps": 40, "seconds": 20, "name": "red"}, token=token
            )
        assert cancelled.is_set()
        if variant.hears_cancel:
            journal.wait_for("cancelled count red")
        assert shared.call("add", {"a": 1, "b": 1}).structured == {"result": 2}
        assert shared.call("process").structured == pid

    def test_one_of_three_leaves_two(self, variant, shared, journal):
        """A cancel ends its own call and no other on the same session."""
        token = CancelToken()
        others = []

        def other(name):
            arguments = {"steps": 2, "seconds": 1.0, "name": name}
            others.append(text_of(shared.call("count", arguments)))

        def cancelled():
            with pytest.raises(Cancelled):
                arguments = {"steps": 40, "seconds": 20, "name": "one"}
                shared.call("count", arguments, token=token)

        def cancel():
            journal.wait_for("began count one")
            token.cancel("this one")

        together(lambda: other("two"), lambda: other("three"), cancelled, cancel)
        assert others == ["counted to 2", "counted to 2"]

    def test_a_deadline_is_a_cancel_on_the_wire(self, variant, shared, journal):
        """A call that takes too long is cancelled at the server too."""
        with pytest.raises(TimeoutError):
            shared.call(
                "count", {"steps": 2, "seconds": 20, "name": "slow"}, timeout=1.0
            )
        if variant.hears_cancel:
            journal.wait_for("cancelled count slow")


class TestQuestions:
    def test_a_form_is_answered(self, variant, shared):
        """What was left out of a form is filled with its default."""
        if not variant.asks:
            pytest.skip("a server without sessions cannot ask")
        assert text_of(shared.call("ask_name")) == "Ada is 30"

    def test_roots_are_listed(self, variant, shared):
        """The server gets the folders that the program gave."""
        if not variant.asks:
            pytest.skip("a server without sessions cannot ask")
        assert text_of(shared.call("roots")) == "file:///srv/books"

    def test_a_model_answers(self, variant, shared):
        """The server may use the model that the program has given to it."""
        if not variant.asks:
            pytest.skip("a server without sessions cannot ask")
        assert text_of(shared.call("sample")) == "the model said: Well."


class TestChanges:
    def test_a_new_tool_is_announced(self, variant, shared):
        """A changed list is announced, and the next list has the new tool."""
        if not variant.announces:
            pytest.skip("a server without sessions cannot announce")
        changed = threading.Event()
        registration = shared.on_change(lambda *_: changed.set())
        try:
            # A modern server may not have taken the subscription yet.
            end = time.monotonic() + LONG
            while not changed.is_set() and time.monotonic() < end:
                shared.call("grow")
                changed.wait(0.5)
            assert changed.is_set()
        finally:
            registration.close()
        assert "grown" in [tool.name for tool in shared.tools()]
