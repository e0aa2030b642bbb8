"""The reference servers of npm: everything, filesystem and memory."""

import time

import pytest
from real_servers import EVERYTHING, MISSING, NODE, node_script
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken
from syncagent.mcp import MCPServer

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

in_each_way = pytest.mark.parametrize("variant", EVERYTHING, ids=repr, scope="module")


def text_of(result):
    return "".join(getattr(block, "text", "") for block in result.content)


@in_each_way
class TestEverything:
    def test_tools_resources_and_prompts(self, shared):
        """Its lists are read, and a tool answers."""
        assert shared.era == "legacy"
        names = [tool.name for tool in shared.tools()]
        assert {"echo", "get-sum", "get-tiny-image"} <= set(names)
        assert "simulate-research-query" not in names  # it works as a task only
        assert shared.resources()
        assert shared.prompts()
        assert text_of(shared.call("echo", {"message": "hello"})) == "Echo: hello"

    def test_pictures_links_and_structure(self, shared):
        """Each kind of block arrives."""
        kinds = [type(b).__name__ for b in shared.call("get-tiny-image").content]
        assert "Image" in kinds
        result = shared.call("get-structured-content", {"location": "Chicago"})
        assert set(result.structured) >= {"temperature", "conditions"}
        assert shared.call("get-resource-links", {"count": 2}).content

    def test_progress(self, shared):
        """Five steps are five reports."""
        seen = []
        arguments = {"duration": 0.5, "steps": 5}
        shared.call(
            "trigger-long-running-operation", arguments, on_progress=seen.append
        )
        assert [each.progress for each in seen] == [1, 2, 3, 4, 5]

    def test_a_cancel_leaves_the_session_usable(self, shared):
        """The tool does not look at cancels and reports on; nobody is disturbed."""
        token = CancelToken()
        reports = []

        def cancel(report):
            reports.append(report)
            token.cancel("enough")

        with pytest.raises(Cancelled):
            shared.call(
                "trigger-long-running-operation",
                {"duration": 3, "steps": 30},
                token=token,
                on_progress=cancel,
            )
        assert len(reports) == 1
        assert text_of(shared.call("echo", {"message": "on"})) == "Echo: on"

    def test_an_elicitation(self, shared):
        """A form of every kind of field is answered."""
        assert "Ada" in text_of(shared.call("trigger-elicitation-request"))

    @pytest.mark.parametrize("error_path", [False, True], ids=["asked", "error"])
    def test_a_page_to_open(self, shared, error_path):
        """By a question, and by the error -32042, after which the call is repeated."""
        arguments = {"url": f"https://a.test/{error_path}", "errorPath": error_path}
        result = shared.call("trigger-url-elicitation", arguments)
        assert not result.is_error
        assert "accept" in text_of(result).lower()

    def test_roots(self, shared):
        """The server has asked for the roots by itself."""
        assert "/srv/books" in text_of(shared.call("get-roots-list"))

    def test_fifty_threads(self, shared):
        """Each of fifty threads gets its own echo."""

        def work(number):
            result = shared.call("echo", {"message": f"{number}"})
            assert text_of(result) == f"Echo: {number}"

        together(*(lambda n=n: work(n) for n in range(50)), timeout=60)


class TestFilesystem:
    def test_a_file_is_read_in_the_folder_and_not_outside(self, tmp_path):
        """The folder is given by a root; what lies outside is refused."""
        (tmp_path / "note.txt").write_text("a note")
        command = [NODE, node_script("server-filesystem"), str(tmp_path)]
        with MCPServer.stdio(command) as files:
            path = str(tmp_path / "note.txt")
            assert "a note" in text_of(files.call("read_text_file", {"path": path}))
            assert files.call("read_text_file", {"path": "/etc/hostname"}).is_error

    def test_roots_replace_the_arguments(self, tmp_path):
        """The server asks for roots after the handshake and takes them."""
        (tmp_path / "note.txt").write_text("a note")
        command = [NODE, node_script("server-filesystem")]
        with MCPServer.stdio(command, roots=(str(tmp_path),)) as files:
            # It takes them when it has them, and serves calls before.
            end = time.monotonic() + LONG
            allowed = ""
            while str(tmp_path) not in allowed and time.monotonic() < end:
                allowed = text_of(files.call("list_allowed_directories"))
            assert str(tmp_path) in allowed


class TestMemory:
    def test_what_was_stored_is_found(self, tmp_path):
        """A graph is written and read again."""
        env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
        command = [NODE, node_script("server-memory")]
        entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        with MCPServer.stdio(command, env=env) as memory:
            memory.call("create_entities", {"entities": [entity]})
            assert "Ada" in text_of(memory.call("read_graph"))
