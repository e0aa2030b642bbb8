"""Look a name up at a name server that never answers, and be cancelled in it.

Run it as root in a mount namespace of its own (``unshare -m``), since it puts another
``resolv.conf`` in place. It says in JSON what happened.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from syncagent import Cancelled, CancelToken
from syncagent.transport import Transport

SILENT = "127.9.9.9"


def use_silent_name_server():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((SILENT, 53))
    with tempfile.NamedTemporaryFile("w") as config:
        config.write(f"nameserver {SILENT}\noptions timeout:30 attempts:5\n")
        config.flush()
        subprocess.run(["mount", "--bind", config.name, "/etc/resolv.conf"], check=True)
    return server


def main(origin):
    server, token = use_silent_name_server(), CancelToken()
    signal.signal(signal.SIGUSR1, lambda *_: token.cancel("signal", origin="signal"))

    def cancel_when_asked():
        server.recvfrom(512)
        if origin == "signal":
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            token.cancel()

    threading.Thread(target=cancel_when_asked, daemon=True).start()
    try:
        Transport().post("https://model.example/", token=token, json={})
    except Cancelled as stop:
        said = {"origin": stop.origin}
    names = sorted(t.name for t in threading.enumerate() if t.name != "MainThread")
    print(json.dumps({**said, "left": names.count("syncagent-dns")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
