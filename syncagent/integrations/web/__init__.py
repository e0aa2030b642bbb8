"""Runs over HTTP, for any framework and server."""
