"""A gunicorn.conf.py with hooks of its own."""

from syncagent.integrations import gunicorn as runs

control_socket_disable = True
post_fork = runs.post_fork
worker_abort = runs.worker_abort


def post_worker_init(worker):
    runs.post_worker_init(worker)
    worker.log.warning("my own post_worker_init")


def worker_exit(server, worker):
    runs.worker_exit(server, worker)
    worker.log.warning("my own worker_exit")
