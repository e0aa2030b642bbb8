"""Runs in the background: handles, their threads, subscriptions, and the runtime."""
