"""Stop one call of the live run, and let the rest of it go on."""

from __future__ import annotations

from collections.abc import Sequence

from ..cancel.reason import Cause, make_cause
from ..run.run import Run
from ..tools.call_stop import CallReceipt, checked_path
from .conversation import Conversation

__all__ = ["CancelsCalls"]


class CancelsCalls:
    """Mixin: ``cancel_call()`` for an object with at most one live run."""

    _conversation: Conversation

    def _find_run(self) -> Run | None:
        """Return the live run, if there is one. Must take no lock."""
        return self._conversation.run

    def cancel_call(
        self,
        call_id: str | Sequence[str],
        reason: str = "",
        *,
        run_id: str | None = None,
        force: bool = False,
    ) -> CallReceipt:
        """Stop one tool call of the live run; the rest of the round goes on.

        The call ends by the policy of its tool, as with a cancel of the run, and its
        result tells the model that the user stopped it. A sub-agent ends with its call.
        A tool that ignores the cancel, and whose policy is to wait, runs to its end.

        Call it from any thread or a signal handler: it never blocks, takes no lock,
        runs no user code and logs nothing.

        :param call_id: the id of the call; for a call of a sub-agent the ids that lead
            to it, the outermost first, as a tuple. If the model repeats the id in later
            turns, it is the call of the current round; ``ctx.idempotency_key`` names
            one call forever.
        :param reason: why, for the model.
        :param run_id: stop it only if this is the live run.
        :param force: do not wait for it: leave its thread behind, kill its process. A
            call on the run's own thread cannot be left.
        :return: true if and only if the call was running, or waited for its turn in the
            round, at that moment.
        :raises TypeError: an argument is wrong; nothing is stopped.
        """
        return self.stop_call(call_id, make_cause(reason, "user"), run_id, force=force)

    def stop_call(
        self,
        call_id: str | Sequence[str],
        cause: Cause,
        run_id: str | None,
        *,
        force: bool,
    ) -> CallReceipt:
        """Stop one call for *cause*; otherwise as :meth:`cancel_call`."""
        checked_path(call_id)
        run = self._find_run()
        if run is None or run_id not in (None, run.id):
            return CallReceipt(None, cause)
        return run.services.cancel_call(call_id, cause, force=force)
