"""Web applications and their servers: runs over HTTP that end when their client leaves.

============================  ========================================================
:mod:`~.web`                  runs over HTTP, without a framework
:mod:`~.flask`                an extension for Flask
:mod:`~.django`               an app for Django
:mod:`~.gunicorn`             hooks that end runs with their worker
============================  ========================================================

Nothing here imports a server. Only ``flask`` and ``django`` import their framework.
"""
