"""The command ``syncagent conversations``: list, show, fork and delete them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..cancel import CancelToken
from ..messages import Message, Text, ToolCall, ToolResult
from .arguments import count, position
from .colours import Paint
from .exit_codes import EXIT_NO_SUCH_RUN
from .plain_text import harmless, on_one_line
from .store_access import add_store, opened_store
from .tables import age_text, print_json, print_table

if TYPE_CHECKING:
    from ..stores import RunStore, StoredConversation

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "list the conversations of a store; show, fork or delete one"

#: The widest that columns may be on a terminal; the first goes first.
_WIDEST: Final = {"VERSION": 8, "OWNER": 20}
#: The longest result of a tool that is shown.
_RESULT: Final = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, and its actions."""
    _add_common(parser, owner_help="only conversations of this owner")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=50, help="at most N; by default 50"
    )
    parser.set_defaults(action=_list, owner=None, json=False)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    for action, summary in (
        (_show, "show the messages"),
        (_fork, "begin a new conversation with the messages; print its id"),
        (_delete, "delete it with its runs; a live one ends"),
    ):
        name = action.__name__.removeprefix("_")
        command = actions.add_parser(name, help=summary, description=summary)
        command.add_argument("id", metavar="ID", help="the id of the conversation")
        if action is _fork:
            command.add_argument(
                "new", metavar="NEW", nargs="?", help="the new id; else a random one"
            )
            command.add_argument(
                "--at", metavar="N", type=position, help="only the first N messages"
            )
        command.set_defaults(action=action)
        _add_common(command, owner_help="its owner")


def _add_common(parser: argparse.ArgumentParser, owner_help: str) -> None:
    add_store(parser)
    # Suppressed: an option before the action must stay.
    parser.add_argument(
        "--owner", metavar="NAME", default=argparse.SUPPRESS, help=owner_help
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="write lines of JSON",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Do the action.

    Cancellation: ends at once.

    :return: 0; 6 if there is no such conversation.
    :raises StoreUnavailable: the store is unavailable.
    """
    action: Callable[[RunStore, argparse.Namespace], int] = options.action
    with opened_store(options, token) as store:
        return action(store, options)


def _list(store: RunStore, options: argparse.Namespace) -> int:
    found = store.conversations(owner=options.owner, limit=options.limit)
    if options.json:
        print_json(map(_to_json, found))
    elif found:
        _print_table(found)
    else:
        print("There are no conversations.", file=sys.stderr)
    return 0


def _to_json(conversation: StoredConversation) -> dict[str, object]:
    names = ("id", "owner", "title", "labels", "version", "created_at", "changed_at")
    return {name: getattr(conversation, name) for name in (*names, "live_run")}


def _print_table(found: Sequence[StoredConversation]) -> None:
    table = {
        "ID": [each.id for each in found],
        "OWNER": [each.owner for each in found],
        "VERSION": [str(each.version) for each in found],
        "STATE": ["live" if each.live_run else "" for each in found],
        "CHANGED": [age_text(time.time() - each.changed_at) for each in found],
        "TITLE": [each.title for each in found],
    }
    print_table(table, _WIDEST, {"live": "green"}, "STATE")


def _find(store: RunStore, options: argparse.Namespace) -> StoredConversation | None:
    """Return the conversation that the command line names, if it has begun."""
    found = store.conversation(options.id, owner=options.owner or "")
    if found.version:
        return found
    whose = f"owner {options.owner!r}" if options.owner else "no owner (use --owner)"
    print(
        f"syncagent: there is no conversation {on_one_line(options.id)!r} of "
        f"{on_one_line(whose)}; syncagent conversations lists them",
        file=sys.stderr,
    )
    return None


def _show(store: RunStore, options: argparse.Namespace) -> int:
    conversation = _find(store, options)
    if conversation is None:
        return EXIT_NO_SUCH_RUN
    messages = conversation.messages()
    if options.json:
        print_json(messages)
        return 0
    paint = Paint()
    for message in messages:
        for role, text in _parts(message):
            print(f"{paint(role, 'bold')}: {harmless(text)}")
    if conversation.live_run:
        print("A run is live; its messages are not shown.", file=sys.stderr)
    return 0


def _parts(message: Message) -> Iterator[tuple[str, str]]:
    """Return the parts of a message that a person can read, and whose they are."""
    role = type(message).__name__.removesuffix("Message").lower()
    for block in message.content:
        if isinstance(block, Text):
            yield role, block.text
        elif isinstance(block, ToolCall):
            yield role, f"[{on_one_line(f'{block.name} {block.arguments}')}]"
        elif isinstance(block, ToolResult):
            texts = [each.text for each in block.content if isinstance(each, Text)]
            yield "tool", on_one_line(" ".join(texts) or "[no text]", _RESULT)
        else:
            yield role, f"[{type(block).__name__}]"


def _fork(store: RunStore, options: argparse.Namespace) -> int:
    conversation = _find(store, options)
    if conversation is None:
        return EXIT_NO_SUCH_RUN
    fork = _to_json(conversation.fork(options.new, at=options.at))
    if options.json:
        print_json([fork])
    else:
        print(on_one_line(str(fork["id"])))
    return 0


def _delete(store: RunStore, options: argparse.Namespace) -> int:
    conversation = _find(store, options)
    if conversation is None or not conversation.delete():
        return EXIT_NO_SUCH_RUN
    print("Deleted.")
    return 0
