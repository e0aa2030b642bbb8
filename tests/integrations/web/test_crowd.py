"""Many streams at once, of which many vanish: none is left behind."""

import random
import threading

import pytest
from support.threads import LONG
from support.web.servers import SERVERS, Server

pytestmark = pytest.mark.slow

#: Those that can serve more than one request at a time.
THREADED = [name for name in SERVERS if name != "gunicorn-sync"]
#: What a client does: where it vanishes, if it does.
PLANS = [
    ("hello", "end"),
    ("long", "end"),
    ("long", "text_delta"),
    ("stall", "text_delta"),
    ("stall", "run"),
    ("silence", "run"),
    ("endless tool", "tool_started"),
    ("approval", "interrupt_raised"),
    ("stall", None),
]


def live_through(server, fake, plan, errors):
    """Be one client."""
    talk, last = plan
    try:
        with server.stream(talk, fake) as client:
            if last is not None:
                client.until(last)
    except Exception as error:
        errors.append((plan, error))


def is_at_rest(server, state, before):
    """Is nothing left of any run? Each thread of uWSGI keeps something of its own."""
    own = server.threads if server.name == "uwsgi" else 2
    more = state["descriptors"] - before["descriptors"]
    return not state["live"] and not state["ours"] and more <= own


def crowd(server, fake, number, seed):
    """Let so many clients come and go, and see that nothing stays."""
    chance = random.Random(seed)
    before = server.wait_until_free()
    plans = [chance.choice(PLANS) for _ in range(number)]
    errors = []
    threads = [
        threading.Thread(target=live_through, args=(server, fake, plan, errors))
        for plan in plans
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert errors == []
    after = server.wait(lambda s: is_at_rest(server, s, before), "rest")
    ended = after["ended"][len(before["ended"]) :]
    assert {tuple(how[:2]) for how in ended} <= {
        ("end_turn", None),
        ("cancelled", "disconnect"),
    }
    whole = sum(last == "end" for _, last in plans)
    assert sum(how[0] == "end_turn" for how in ended) >= whole
    assert after["abandoned"] == 0


def test_some_streams(threaded, fake):
    """Issue 8: of streams that vanish at random none is left, on any server."""
    crowd(threaded, fake, threaded.threads, seed=7)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", THREADED)
def test_a_hundred_streams(name, seed, fake):
    """Issue 8: the same with a hundred at a time."""
    with Server(name, threads=110) as server:
        for round in range(3):
            crowd(server, fake, 100, seed=100 * seed + round)
