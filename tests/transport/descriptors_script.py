"""Make calls when no descriptor is left, then one when there is; say what happened."""

import json
import os
import resource
import sys

from syncagent.exceptions import SyncAgentError
from syncagent.transport import Transport


def main(url):
    transport, said = Transport(retries=0), {}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(os.listdir("/proc/self/fd")) - 1
    # One more each time: there is none for the socket, none for its duplicate, ...
    for spare in range(10):
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken + spare, hard))
        try:
            transport.post(url, json={})
            break
        except SyncAgentError as error:
            said.setdefault("failed", type(error).__name__)
            said.setdefault("advice", "ulimit" in str(error))
            said.setdefault("errno", error.__cause__.errno)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    said["spare"] = spare
    said["kept"] = len(os.listdir("/proc/self/fd")) - 1 - taken
    said["works_again"] = transport.post(url, json={}).status == 200
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
