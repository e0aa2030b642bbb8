"""Fork with connections open, idle and in use, and say in JSON what happened.

::

    python fork_script.py SCENE URL AUTHORITY
"""

import json
import os
import socket
import sys
import threading

import requests
from support.processes import in_child

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import SyncAgentError
from syncagent.transport import CancellableSession, Transport, close_idle, tls
from syncagent.transport.adapter import shared_adapter

LONG = 20.0


def sockets():
    """Return the sockets that this process has open, by their inode."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    targets = (os.readlink(link) for link in links if os.path.lexists(link))
    return {target for target in targets if target.startswith("socket:")}


class Scenes:
    def __init__(self, url, authority):
        self.url = url
        self.transport = Transport(verify=authority)

    def ask(self, word="?"):
        return self.transport.post(f"{self.url}/echo", json=word).json()

    def an_idle_connection(self):
        """Both sides go on; each has a connection of its own."""
        before = self.ask()["connection"]
        theirs = in_child(lambda: [self.ask()["connection"] for _ in range(3)])
        return {"parent": before == self.ask()["connection"], "child": before in theirs}

    def inherited_descriptors(self):
        """The child closes what it has inherited, idle or in use."""
        stream = self.transport.stream(f"{self.url}/chunked/e/stall", json={})
        next(stream)
        self.ask()
        mine = sockets()
        theirs = in_child(lambda: sorted(sockets() & mine))
        stream.close()
        return {"mine": len(mine), "theirs": theirs}

    def a_cancel_in_the_child(self):
        """It ends nothing of the parent's."""
        token = CancelToken()
        url = f"{self.url}/chunked/e/e/wait/e/end"
        stream = self.transport.stream(url, token=token, json={})
        next(stream)
        cancelled = in_child(token.cancel)
        print("go on", flush=True)
        return {"cancelled": cancelled, "events": len(list(stream))}

    def a_stream_on_both_sides(self):
        """The child cannot take a byte of the parent's stream."""
        stream = self.transport.stream(f"{self.url}/chunked/e/wait/e/end", json={})
        next(stream)

        def read():
            try:
                return [event.data for event in stream]
            except SyncAgentError as error:
                return type(error).__name__

        theirs = in_child(read)
        print("go on", flush=True)
        return {"child": theirs, "parent": len(list(stream))}

    def a_session(self):
        """The same holds for a session of requests."""
        session = CancellableSession(CancelToken())
        session.verify = self.transport._settings._session.verify

        def ask():
            return session.get(f"{self.url}/echo").json()["connection"]

        before = ask()
        return {"child": before == in_child(ask), "parent": before == ask()}

    def a_look_up(self):
        """The child does not wait for one that only the parent has a thread for."""
        asked, over = threading.Event(), threading.Event()
        parent = os.getpid()

        def resolver(host, port, family, kind):
            asked.set()
            if os.getpid() == parent:
                over.wait(LONG)
            return socket.getaddrinfo("127.0.0.1", port, family, kind)

        verify = self.transport._settings._session.verify
        transport = Transport(resolver=resolver, verify=verify)
        url = f"{self.url}/ok".replace("127.0.0.1", "localhost")
        thread = threading.Thread(target=lambda: transport.post(url, json={}))
        thread.start()
        asked.wait(LONG)
        status = in_child(lambda: transport.post(url, json={}).status)
        over.set()
        thread.join(LONG)
        return {"status": status}

    def what_is_made_anew(self):
        """Locks that a thread of the parent may have held are not the child's."""
        self.ask()
        manager = shared_adapter().poolmanager
        return in_child(
            lambda: {
                "contexts": len(tls._contexts),
                "is_new": shared_adapter().poolmanager is not manager,
            }
        )

    def under_fire(self, rounds=25):
        """Fork while threads call and cancel; whatever locks they held, children work.

        Every answer must be that to the very question that was asked. With TLS nothing
        is cancelled, so that no thread makes a new connection at the very moment of a
        fork: OpenSSL has locks of its own, which nobody frees in a child.
        """
        over, wrong, spoken = threading.Event(), [], set()
        cancels = self.url.startswith("http:")

        def converse(name):
            number = 0
            while not over.is_set():
                number += 1
                word, token = f"{name}-{number}", CancelToken()
                if cancels and number % 3 == 0:
                    threading.Timer(0.0005, token.cancel).start()
                try:
                    url = f"{self.url}/echo"
                    said = self.transport.post(url, token=token, json=word).json()
                except Cancelled:
                    continue
                if said["body"] != json.dumps(word):
                    wrong.append((word, said["body"]))
                spoken.add(name)

        threads = [
            threading.Thread(target=converse, args=(f"parent-{n}",)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        while len(spoken) < len(threads):
            over.wait(0.001)

        def child():
            words = [f"child-{os.getpid()}-{number}" for number in range(5)]
            return [self.ask(word)["body"] == json.dumps(word) for word in words]

        try:
            answers = [in_child(child) for _ in range(rounds)]
        finally:
            over.set()
            for thread in threads:
                thread.join(LONG)
        return {"wrong": wrong, "right": answers == [[True] * 5] * rounds}

    def plain_requests(self):
        """The same idle connection with requests as it is: what this is all about."""
        session = requests.Session()
        session.get(f"{self.url}/echo")
        before = session.get(f"{self.url}/echo").json()["connection"]
        theirs = in_child(lambda: session.get(f"{self.url}/echo").json()["connection"])
        return {"shared": before == theirs}


if __name__ == "__main__":
    scene, *arguments = sys.argv[1:]
    print(json.dumps(getattr(Scenes(*arguments), scene)()), flush=True)
    close_idle()
