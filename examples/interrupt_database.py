"""End a database query that blocks, by a callback on the token.

Run it: python examples/interrupt_database.py
There is no model in it: a tool writes ctx.on_cancel(database.interrupt).
"""

import sqlite3
import threading
from contextlib import closing

from syncagent import CancelToken

COUNT_FOR_EVER = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT max(i) FROM n
"""


def main():
    token = CancelToken()
    threading.Timer(0.3, token.cancel, ["user pressed stop"]).start()
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as database:
        try:
            # Inside this block a cancel interrupts the query; after it, nothing does.
            with token.on_cancel(database.interrupt):
                database.execute(COUNT_FOR_EVER).fetchall()
        except sqlite3.OperationalError as error:
            # Whatever ended it, ask the token first: the error may be its doing.
            if not token.cancelled:
                raise
            print(f"query ended: {error}; because: {token.reason}")
        print("and the connection still works:", *database.execute("SELECT 42"))


if __name__ == "__main__":
    main()
