"""What threads say to one that waits for them, or for a cancel."""

import pytest
from support.threads import together

from syncagent.cancel import CancelToken, Mailbox, clock


def test_first_in_first_out():
    """Things come out in the order in which they went in."""
    mail, token = Mailbox(), CancelToken()
    for number in range(3):
        mail.put(number + 1)
    assert [mail.get(token) for _ in range(3)] == [1, 2, 3]
    assert mail.take() is None


def test_waiting_for_something():
    """Who waits is woken by whatever comes."""
    mail, token, got = Mailbox(), CancelToken(), []
    together(lambda: got.append(mail.get(token)), lambda: mail.put("here"))
    assert got == ["here"]


def test_waiting_ends_with_the_token():
    """Promise 2: a cancel ends the wait, and nothing is made up."""
    mail, token, got = Mailbox(), CancelToken(), []
    together(lambda: got.append(mail.get(token)), token.cancel)
    assert got == [None]


def test_waiting_ends_in_time():
    """A time that has passed, own or the token's, ends the wait."""
    mail = Mailbox()
    assert mail.get(CancelToken(), clock.now() + 0.01) is None
    assert mail.get(CancelToken(0.01)) is None


def test_what_is_there_counts_more_than_a_cancel():
    """Nothing that has come is lost."""
    mail, token = Mailbox(), CancelToken()
    mail.put("here")
    token.cancel()
    assert mail.get(token) == "here"
    assert mail.get(token) is None


def test_it_can_be_waited_for_again_under_another_token():
    """A run that is cancelled waits on for the end of its tools."""
    mail, token, forced, got = Mailbox(), CancelToken(), CancelToken(), []
    token.cancel()
    assert mail.get(token) is None
    together(lambda: got.append(mail.get(forced)), lambda: mail.put("late"))
    assert got == ["late"]


@pytest.mark.parametrize("senders", [8])
def test_nothing_is_lost(senders):
    """Whatever many threads put in comes out once."""
    mail, token, got = Mailbox(), CancelToken(), []

    def receive():
        while len(got) < senders * 500:
            got.append(mail.get(token))

    def send(name):
        for number in range(500):
            mail.put((name, number))

    together(receive, *[lambda name=name: send(name) for name in range(senders)])
    assert sorted(got) == [(name, n) for name in range(senders) for n in range(500)]
