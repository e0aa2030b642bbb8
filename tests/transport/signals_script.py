"""Calls on the main thread, and signals at random moments; say in JSON how it went.

::

    python signals_script.py cancel|interrupt NUMBER HTTP HTTPS AUTHORITY
"""

import faulthandler
import gc
import json
import os
import random
import signal
import sys

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import SyncAgentError
from syncagent.transport import Transport
from syncagent.transport.adapter import shared_adapter

PATHS = ["ok", "chunked/e/e/end", "chunked/e/stall", "silent", "close/stall", "cut"]
#: Seconds without a signal taken, after which something is stuck.
STUCK = 15


class Storm:
    def __init__(self, scene, transport, addresses):
        self._raises = scene == "interrupt"
        self._transport = transport
        self._addresses = addresses
        self._randomly = random.Random(scene)
        self._token = None
        self._is_armed = False
        self.hit = 0
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, signum, frame):
        if not self._is_armed:
            return
        if self._raises:
            raise KeyboardInterrupt
        self._token.cancel("signal", origin="signal")

    def disarm(self):
        self._is_armed = False

    def call(self):
        self._token = CancelToken()
        address = self._randomly.choice(self._addresses)
        url = f"{address}/{self._randomly.choice(PATHS)}"
        seconds = self._randomly.choice([0.0005, 0.003, 0.01]) * self._randomly.random()
        try:
            self._is_armed = True
            # Again and again: one may be overlooked on the way into a wait, or raise
            # in a finalizer, which swallows it.
            signal.setitimer(signal.ITIMER_REAL, seconds + 1e-6, 0.25)
            for _ in self._transport.stream(url, token=self._token, json={}):
                pass
        except (Cancelled, KeyboardInterrupt):
            self.hit += 1
        except SyncAgentError:
            pass
        finally:
            self.disarm()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def main(scene, number, http, https, authority):
    transport = Transport(verify=authority, retries=0)
    storm = Storm(scene, transport, [http, https])
    transport.post(f"{https}/ok", json={})
    shared_adapter().close()
    before = descriptors()
    for _ in range(int(number)):
        faulthandler.dump_traceback_later(STUCK, exit=True)
        try:
            storm.call()
        except KeyboardInterrupt:  # in the middle of handling the one before
            storm.hit += 1
            storm.disarm()
    storm.disarm()
    signal.setitimer(signal.ITIMER_REAL, 0)
    works = transport.post(f"{https}/ok", json={}).status == 200
    shared_adapter().close()
    gc.collect()
    left = descriptors() - before
    print(json.dumps({"hit": storm.hit, "left": left, "works": works}))


if __name__ == "__main__":
    main(*sys.argv[1:])
