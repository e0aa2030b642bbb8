"""A gunicorn.conf.py with the hooks of syncagent."""

from syncagent.integrations.gunicorn import *  # noqa: F403

#: Newer versions would put a file beside us.
control_socket_disable = True
