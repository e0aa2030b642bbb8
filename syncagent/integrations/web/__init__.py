"""Runs over HTTP, for any framework and server.

============================  ========================================================
:mod:`~.views`                the endpoints, without a framework
:mod:`~.bodies`               request and response bodies, as JSON
:mod:`~.kept_bodies`          those about conversations, questions and answers
:mod:`~.errors`               HTTP errors, and error messages that are safe to show
:mod:`~.runs`                 the runs of this process, live and just finished
:mod:`~.web_run`              one run, its owner and its followers
:mod:`~.conversations`        the conversations of a store
:mod:`~.inbox`                questions of a store: who may see and answer them
:mod:`~.sse`                  a run as a stream of server-sent events
:mod:`~.recordings`           the recording of a run, for its timeline
:mod:`~.watcher`              the thread that watches connections for hang-ups
:mod:`~.disconnect`           the connection behind a request
:mod:`~.operator`             the operator's token, and the client of the commands
:mod:`~.origins`              pages and host names that are trusted
:mod:`~.deployment`           warnings about servers that cannot serve Stop
:mod:`~.settings`             settings that all frameworks share
:mod:`~.wsgi`                 a plain WSGI application
:mod:`~.asgi`                 streams for servers with an event loop
:mod:`~.page`                 the chat page
============================  ========================================================
"""
