"""A provider's complaint about a request."""

from __future__ import annotations


class Complaint(str):
    """The message for a rejected request; any other string is one for status 400."""

    status: int

    def __new__(cls, message: str, status: int = 400) -> Complaint:
        """Return the message with its status."""
        complaint = super().__new__(cls, message)
        complaint.status = status
        return complaint
