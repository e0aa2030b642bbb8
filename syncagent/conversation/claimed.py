"""The claim on a saved state: of all callers that load it, one gets the agent.

A claim is an empty file in a folder that all callers name. Guarantees:

- The kernel creates a file with O_EXCL for exactly one caller, whichever process or
  thread of whichever host it is in. No lock is held, so a process that is killed or
  forked in the middle can neither block the others nor leave half a claim.
- The agent is returned after the claim is on the disk, and the state is claimed after
  it was restored: an invalid one stays free.
- The name of a claim comes from the run and from the number of claims before it. The
  states that one holder saves share them, and so do copies in another notation: of all
  of these, one can be claimed. Its holder saves with the next number.
"""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from typing import Any, Final

import msgspec

from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import ConfigurationError, StateTaken
from .conversation import Conversation
from .restored import restore

__all__ = ["ClaimFolder", "Claims", "claim_name", "restore_claimed"]

#: The folder of the claims; it is made if it does not exist.
ClaimFolder = str | os.PathLike[str]


def restore_claimed(
    conversation: Conversation, state: str | bytes, claim: ClaimFolder | None
) -> None:
    """Bring a new conversation into a saved state, and claim that state.

    :param claim: the folder of the claims; ``None`` to claim nothing.
    :raises StateInvalid: the state cannot be used; it is not claimed.
    :raises StateTaken: another caller has claimed it.
    :raises ConfigurationError: the claim cannot be written.
    """
    claims = None if claim is None else Claims(claim)
    restore(conversation, state)
    if claims is not None:
        claims.add(claim_name(conversation, state))
        conversation.claims += 1


def claim_name(conversation: Conversation, state: str | bytes) -> str:
    """Return the name that all states share of which only one can be claimed.

    :param conversation: the one that was restored from *state*.
    """
    from hashlib import sha256  # here: most programs never claim anything

    resumable = conversation.resumable
    if resumable is not None:
        run_id = resumable.progress.run_id
        return sha256(msgspec.json.encode([run_id, conversation.claims])).hexdigest()
    # Without a run there is nothing unique in a state but its text.
    text = state.encode() if isinstance(state, str) else state
    return sha256(text.strip()).hexdigest()


class Claims:
    """The claims in a folder.

    :raises ConfigurationError: *folder* is not a path.
    """

    def __init__(self, folder: ClaimFolder) -> None:
        path: Any = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
        if not isinstance(path, str) or not path or "\0" in path:
            raise ConfigurationError(
                "claim must be the path of a folder, such as 'claims'; got "
                f"{folder!r:.80}"
            )
        self._folder: Final[str] = path

    def add(self, name: str) -> None:
        """Add a claim, and return when it is on the disk.

        :raises StateTaken: there is one of this name.
        :raises ConfigurationError: it cannot be written, and was not added.
        """
        try:
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
                _sync(os.path.dirname(os.path.abspath(self._folder)))
            _create(os.path.join(self._folder, name))
        except OSError as error:
            if raised_by_signal_handler(error):
                raise
            raise ConfigurationError(
                f"the state was not loaded, because it cannot be claimed: {error}; "
                f"claim={self._folder!r:.200} must be a folder that this process can "
                "write to"
            ) from None


def _create(path: str) -> None:
    """Create the file of a claim, on the disk.

    :raises StateTaken: it exists.
    """
    try:
        file = FileIO(
            path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)
        )
    except FileExistsError:
        raise StateTaken(
            "another load() has claimed this state, or one that was saved beside it, "
            "and may have called its tools: load what that holder has saved since. If "
            "it died before it saved anything, check what its tools have done; then "
            f"load the state without claim=, or delete the claim {path!r:.300} first"
        ) from None
    try:
        with file:
            os.fsync(file.fileno())
        _sync(os.path.dirname(path))
    except BaseException:
        # This caller does not get the agent, so the next one may.
        with suppress(OSError):
            os.unlink(path)
        raise


def _sync(folder: str) -> None:
    """Write the names in a folder to the disk, where a system has a call for that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
