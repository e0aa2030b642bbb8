"""A queue of ids in a pipe: each reader takes one, and no other gets it."""

import os

#: Characters of an id. Reads and writes of so few are never divided.
SIZE = 48


def new_id():
    return os.urandom(SIZE // 2).hex()


def put(descriptor, id):
    """Add an id."""
    os.write(descriptor, id.encode())


def take(descriptor):
    """Wait for an id, and take it away."""
    id = os.read(descriptor, SIZE).decode()
    assert len(id) == SIZE, "the queue has ended"
    return id
