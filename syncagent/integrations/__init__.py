"""Web applications and their servers: runs over HTTP that end when their client goes.

============================  ========================================================
:mod:`~.bodies`               what requests and responses look like, as JSON
:mod:`~.refusals`             what is answered instead, and what may be said of errors
:mod:`~.web_run`              one run, its owner and those who follow it
:mod:`~.runs`                 all runs of this process, live and just finished
:mod:`~.recordings`           what is written down of a run, and its timeline
:mod:`~.sse`                  a run as a stream of server-sent events
:mod:`~.views`                the endpoints, without a framework
:mod:`~.watcher`              one thread that sees connections end
:mod:`~.disconnect`           which connection a request came over, and its end
:mod:`~.web_settings`         what frameworks can be told about all of it
:mod:`~.wsgi`                 all of it as a plain WSGI application
:mod:`~.asgi`                 streams for servers with an event loop
:mod:`~.gunicorn`             hooks that end runs with their worker
:mod:`~.page`                 the page to chat on
:mod:`~.flask`                an extension for Flask
:mod:`~.django`               an app for Django
============================  ========================================================

Nothing here imports a server, and only what is named after a framework imports that.
"""
