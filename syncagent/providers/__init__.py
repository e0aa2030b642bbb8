"""Wire dialects: a transcript in, bytes out; server-sent events in, our events out.

Pure in both directions: nothing in here does I/O, and nothing imports requests.

===========================  =========================================================
:mod:`~.dialect`             what all of them can do
:mod:`~.draft`               an answer as it comes together
:mod:`~.blocks`              what is shown and called, as most providers want it
:mod:`~.values`              what comes and may be of any kind
:mod:`~.schemas`             JSON schemas with nothing left open
:mod:`~.refusals`            what is wrong with an error that a provider tells
:mod:`~.openai_chat`         Chat Completions, and everything compatible with it
:mod:`~.openai_responses`    the Responses API
:mod:`~.anthropic`           the Messages API
:mod:`~.gemini`              ``streamGenerateContent``
===========================  =========================================================

Where a dialect is long, what goes to the provider is in a module ``..._turns`` beside
it, and what comes from there in ``..._answer``.
"""
