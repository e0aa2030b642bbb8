"""Wire dialects: a transcript in, bytes out; server-sent events in, our events out.

Pure in both directions: nothing in here does I/O, and nothing imports requests.

===========================  =========================================================
:mod:`~.dialect`             the interface that every dialect implements
:mod:`~.draft`               a response under construction
:mod:`~.encoding`            content blocks and tool calls as most providers take them
:mod:`~.strict_schemas`      JSON schemas reduced to what providers can enforce
:mod:`~.errors`              errors that providers report
:mod:`~.families`            names and efforts of families of models
:mod:`~.quirks`              how a provider differs from others with its dialect
:mod:`~.json_values`         typed access to untyped JSON
:mod:`~.openai_chat`         Chat Completions, and everything compatible with it
:mod:`~.openai_responses`    the Responses API
:mod:`~.anthropic`           the Messages API
:mod:`~.gemini`              ``streamGenerateContent``
===========================  =========================================================

Every dialect is a folder with the same four files: ``request`` has the dialect's class,
``turns`` encodes the conversation, ``families`` tells by the name of a model what it
takes, and ``response`` decodes what comes back. Other files in there belong to one of
these. To add a dialect, copy such a folder, and the one in
:mod:`syncagent.testing.providers` that checks it. A provider that is compatible with
one of the four is not a dialect, but an endpoint with :class:`~.quirks.Quirks`.
"""
