"""Make the database and its tables, if they are new; say which server is away."""

import sys
from contextlib import suppress

import psycopg
import redis
from app import DATABASE, REDIS, store
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier


def look_for_servers():
    """Exit with advice, unless both servers are there."""
    try:
        redis.Redis.from_url(REDIS, socket_connect_timeout=5).ping()
    except redis.RedisError as error:
        sys.exit(f"Redis: {error}\nStart it, or set REDIS_URL to another one.")
    try:
        psycopg.connect(DATABASE, connect_timeout=5).close()
    except psycopg.Error as error:
        sys.exit(
            f"PostgreSQL: {error}\n"
            "Start it, or set DATABASE_URL to another one.\n"
            "A missing database is made by set_up.py, a missing role by:\n"
            "    sudo -u postgres createuser --createdb $USER"
        )


def make_database():
    """Create the database, if it is new; errors show when it is looked for."""
    database = {**conninfo_to_dict(DATABASE), "connect_timeout": 5}
    name = database.pop("dbname")
    with (
        suppress(psycopg.Error),
        psycopg.connect(**database, dbname="postgres", autocommit=True) as server,
    ):
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))


if __name__ == "__main__":
    make_database()
    look_for_servers()
    with store:
        store.backend.migrate()
