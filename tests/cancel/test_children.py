"""Children and linked tokens."""

import gc
import tracemalloc

import pytest

from syncagent import CancelToken


def test_child_is_cancelled_with_its_parent():
    """A child gets the reason, with origin parent."""
    parent = CancelToken()
    child = parent.child()
    parent.cancel("stop", "remote")
    assert child.cancelled
    assert (child.reason, child.origin) == ("stop", "parent")


def test_parent_is_not_cancelled_with_its_child():
    """A cancel never goes up, nor sideways."""
    parent = CancelToken()
    first, second = parent.child(), parent.child()
    first.cancel("mine")
    assert not parent.cancelled
    assert not second.cancelled


def test_childs_own_reason_stays():
    """A child that was cancelled before its parent keeps its own reason."""
    parent = CancelToken()
    child = parent.child()
    child.cancel("mine", "limit")
    parent.cancel("theirs")
    assert (child.reason, child.origin) == ("mine", "limit")


def test_child_of_a_cancelled_parent_is_born_cancelled():
    """Promise 6: what is made under a cancelled token cannot begin."""
    parent = CancelToken()
    parent.cancel("stop")
    assert parent.child().reason == "stop"


def test_grandchildren_are_reached_though_nobody_holds_the_middle():
    """A grandchild keeps the way alive over which a cancel comes down."""
    root = CancelToken()
    grandchild = root.child().child().child()
    gc.collect()
    root.cancel()
    assert grandchild.cancelled


def test_any_of_takes_the_first_reason_as_it_is():
    """A linked token is cancelled as the first of its tokens was, verbatim."""
    one, other = CancelToken(), CancelToken()
    linked = CancelToken.any_of(one, other)
    other.cancel("gone", "disconnect")
    one.cancel("late", "user")
    assert (linked.reason, linked.origin) == ("gone", "disconnect")
    assert not CancelToken.any_of(CancelToken()).cancelled


def test_any_of_never_cancels_its_sources():
    """Cancelling the linked token reaches none of those it stands for."""
    one, other = CancelToken(), CancelToken()
    CancelToken.any_of(one, other).cancel()
    assert not one.cancelled
    assert not other.cancelled


def test_any_of_sees_a_token_cancelled_before():
    """A token that is cancelled already makes the linked one so."""
    one, other = CancelToken(), CancelToken()
    other.cancel("before")
    assert CancelToken.any_of(one, other).reason == "before"


@pytest.mark.parametrize("tokens", [(), (CancelToken(), "token"), (None,)])
def test_any_of_refuses_what_is_no_token(tokens):
    """any_of() names what it cannot link."""
    with pytest.raises(TypeError, match=r"any_of\(\)"):
        CancelToken.any_of(*tokens)


def test_a_deep_family_needs_no_deep_stack():
    """Ten thousand generations are cancelled without recursion."""
    family = [CancelToken()]
    for _ in range(10_000):
        family.append(family[-1].child())
    family[0].cancel("root")
    assert family[-1].reason == "root"
    while family:  # from the leaf up, or the interpreter itself recurses
        family.pop()


def test_many_ways_to_one_token_are_walked_once():
    """Thirty diamonds in a row are thirty steps, not two to the thirtieth."""
    top = bottom = CancelToken()
    for _ in range(30):
        bottom = CancelToken.any_of(bottom.child(), bottom.child())
    top.cancel()
    assert bottom.cancelled


def test_memory_returns_when_children_go():
    """Ten thousand children leave nothing on a parent that lives on."""
    parent = CancelToken()
    parent.child()
    gc.disable()  # it must return without the collector
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        children = [parent.child() for _ in range(10_000)]
        full = tracemalloc.get_traced_memory()[0] - before
        del children
        parent.child()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()
    assert len(parent._generation.links) == 1
    assert left < full / 10


def test_children_that_go_in_any_order_are_forgotten():
    """The next child takes the links of those that are gone away, wherever they are."""
    parent = CancelToken()
    children = [parent.child() for _ in range(100)]
    del children[::2]
    children.append(parent.child())
    assert len(parent._generation.links) == 51
    parent.cancel()
    assert all(child.cancelled for child in children)
