"""A worker of DBOS, which releases its runs at SIGTERM."""

import signal
import threading

from dbos import DBOS
from dbos_recipe import URL, store

told_to_end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
DBOS(config={"name": "shop", "system_database_url": URL, "run_admin_server": False})
DBOS.launch()
DBOS.register_queue("agents", worker_concurrency=20, polling_interval_sec=0.1)
store.open()  # to take over the runs of dead workers
print("ready", flush=True)
told_to_end.wait()
# It takes no more from the queue, and waits for its workflows; the store ends those.
ending = threading.Thread(
    target=lambda: DBOS.destroy(workflow_completion_timeout_sec=20)
)
ending.start()
store.close(10)
ending.join()
