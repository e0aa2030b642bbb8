"""Asking people: answers at hand, handlers, and questions open to other threads."""
