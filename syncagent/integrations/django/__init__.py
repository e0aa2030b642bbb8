"""Runs in a Django site, with a Stop button that works: extra ``[django]``.

Put ``"syncagent.integrations.django"`` into ``INSTALLED_APPS``, say in ``SYNCAGENT``
which agent answers and whose runs are whose, and include
``"syncagent.integrations.django.urls"``.

============================  ========================================================
:mod:`~.apps`                 what Django is told about this
:mod:`~.conf`                 ``SYNCAGENT`` of the settings
:mod:`~.checks`               what ``manage.py check`` says about it
:mod:`~.views`, :mod:`~.urls` the endpoints
:mod:`~.owners`               whose a run is: a user's, or a session's
:mod:`~.disconnect`           views that block, and end with their client
:mod:`~.databases`            connections that end with threads of ours
:mod:`~.operators`            how commands reach the server
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
