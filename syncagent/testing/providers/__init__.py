"""The providers that :class:`~syncagent.testing.FakeServer` plays.

Every dialect is a folder with the same two files: ``rules`` finds what the provider
would reject in a request, ``speech`` writes its responses.
"""
