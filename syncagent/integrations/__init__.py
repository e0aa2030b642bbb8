"""Web applications, their servers, and engines: runs end or move with their process.

============================  ========================================================
:mod:`~.web`                  runs over HTTP, without a framework
:mod:`~.flask`                an extension for Flask
:mod:`~.django`               an app for Django
:mod:`~.gunicorn`             hooks that end runs with their worker
:mod:`~.celery`               Celery as the carrier of a store's runs
:mod:`~.dramatiq`             Dramatiq as the carrier of a store's runs
:mod:`~.procrastinate`        Procrastinate as the carrier of a store's runs
:mod:`~.rq`                   RQ as the carrier of a store's runs
============================  ========================================================

Nothing here imports a server. Only ``flask``, ``django``, ``dramatiq`` and ``rq``
import the package that they are named after.
"""
