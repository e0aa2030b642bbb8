"""Run a function in a forked child."""

import json
import os
import warnings


def in_child(function):
    """Run *function* in a forked child and return what it returned."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writable, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else "nothing"
