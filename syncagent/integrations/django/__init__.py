"""Runs in a Django site, with a Stop button that works: extra ``[django]``.

Add ``"syncagent.integrations.django"`` to ``INSTALLED_APPS``, define the agent and the
owners of runs in ``SYNCAGENT``, and include ``"syncagent.integrations.django.urls"``.

============================  ========================================================
:mod:`~.apps`                 the configuration of the app
:mod:`~.conf`                 the ``SYNCAGENT`` settings
:mod:`~.checks`               checks of the settings, for ``manage.py check``
:mod:`~.views`, :mod:`~.urls` the endpoints
:mod:`~.owners`               owners of runs: the logged-in user, or the session
:mod:`~.disconnect`           blocking views that end with their client
:mod:`~.databases`            connections of syncagent's threads, stores in databases
:mod:`~.admin`                the store in Django's admin
:mod:`~.tables`               ``manage.py migrate`` for the tables of the store
:mod:`~.management`           ``syncagent_runs`` and ``syncagent_cancel``
============================  ========================================================
"""

from __future__ import annotations

try:
    import django as _django  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "syncagent.integrations.django needs Django, which is not installed; install "
        "it with: pip install 'syncagent[django]'"
    ) from _error
