"""Servers, clients and runs for the tests of web integrations."""
