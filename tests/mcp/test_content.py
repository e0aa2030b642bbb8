"""Results of a server as blocks that a model reads."""

import base64

import pytest

from syncagent.exceptions import MCPProtocolError
from syncagent.mcp.content import call_result, content_block, resource_contents, shown
from syncagent.messages import File, Image, Json, Text

PICTURE = base64.b64encode(b"\x89PNG").decode()


def result(*content, **more):
    return call_result({"content": list(content), **more}, "srv")


def test_text_and_structure():
    """The model gets the content; the value is there for programs."""
    found = result({"type": "text", "text": "3"}, structuredContent={"sum": 3})
    assert found.content == (Text("3"),)
    assert found.structured == {"sum": 3}
    assert found.text == "3"
    assert not found.is_error


@pytest.mark.parametrize("value", [{"sum": 3}, [1, 2], "word", 0, False])
def test_a_structure_alone_is_the_content(value):
    """A modern server may give any JSON value, and no content."""
    assert call_result({"structuredContent": value}, "srv").content == (Json(value),)


def test_pictures_files_and_what_is_neither():
    """Only what every provider takes becomes a picture: one wrong block would have
    the whole conversation refused.
    """
    image = {"type": "image", "data": PICTURE, "mimeType": "image/PNG"}
    assert content_block(image) == Image(data=b"\x89PNG", media_type="image/png")
    jpg = content_block({**image, "mimeType": "image/jpg"})
    assert jpg == Image(data=b"\x89PNG", media_type="image/jpeg")
    for kind in ("image/svg+xml", "image/tiff", "", "text/html"):
        block = content_block({**image, "mimeType": kind})
        assert isinstance(block, Text)
        assert "4 bytes, not shown" in block.text
    pdf = {"uri": "file:///a.pdf", "blob": PICTURE, "mimeType": "application/pdf"}
    block = content_block({"type": "resource", "resource": pdf})
    assert block == File(data=b"\x89PNG", media_type="application/pdf")
    audio = content_block({"type": "audio", "data": PICTURE, "mimeType": "audio/wav"})
    assert "audio of type audio/wav" in audio.text


def test_links_are_named_and_never_fetched():
    """A link is words for the model."""
    link = {"type": "resource_link", "uri": "https://x.example/", "name": "x"}
    text = content_block(link).text
    assert "https://x.example/" in text
    assert "not fetched" in text


def test_content_for_the_user_only_is_not_for_the_model():
    """``audience`` is obeyed."""
    own = {"type": "text", "text": "secret", "annotations": {"audience": ["user"]}}
    both = {"type": "text", "text": "b", "annotations": {"audience": []}}
    assert result(own, both).content == (Text("b"),)
    assert result(own).content == ()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "hologram", "data": 1},
        "words",
        None,
        7,
        {"type": "text", "text": 5},
        {"type": "image", "data": "%%%", "mimeType": "image/png"},
        {"type": "image", "data": None},
        {"type": "resource", "resource": "x"},
        {"type": "resource", "resource": {"uri": "a"}},
        {},
    ],
)
def test_anything_else_is_shown_as_it_is(part):
    """Unknown content is never an error."""
    assert isinstance(content_block(part), Text)


def test_a_result_without_content_is_an_error():
    """The server does not speak the protocol."""
    with pytest.raises(MCPProtocolError, match="srv"):
        call_result({}, "srv")
    assert call_result({"content": []}, "srv").content == ()


def test_resources_are_text_or_bytes():
    """And bytes that are no base64 are an error."""
    text = {"uri": "a:1", "text": "hi", "mimeType": "text/plain"}
    found = resource_contents(
        {"contents": [text, {"uri": "a:2", "blob": PICTURE}]}, "s"
    )
    assert [one.text for one in found] == ["hi", None]
    assert found[1].data == b"\x89PNG"
    with pytest.raises(MCPProtocolError, match="base64"):
        resource_contents({"contents": [{"uri": "a", "blob": "%"}]}, "s")
    with pytest.raises(MCPProtocolError, match="no contents"):
        resource_contents({}, "s")


def test_a_stranger_cannot_paint_on_the_terminal():
    """Control characters and turned directions are made visible, long texts cut."""
    assert shown("a\x1b[2Jb\u202ec\r\nd\te", 100) == "a?[2Jb?c\nd e"
    assert shown("x" * 50, 10) == "x" * 10
