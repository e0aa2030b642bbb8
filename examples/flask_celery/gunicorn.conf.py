"""Two processes serve the page; either can follow, stop and answer every run."""

from syncagent.integrations.gunicorn import *  # noqa: F403

workers = 2
threads = 20  # an open page needs one


def on_starting(server):
    from set_up import look_for_servers

    look_for_servers()
