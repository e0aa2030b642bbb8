"""What a project has in its gunicorn.conf.py."""

from syncagent.integrations.gunicorn import *  # noqa: F403

#: Newer versions would put a file beside us.
control_socket_disable = True
