"""The tables of a store, and how they change from version to version.

Migrations are a list that only grows. Within a major version they only add, so that old
and new workers can share the tables while a deploy is under way.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MAJOR", "MIGRATIONS", "VERSION"]

#: An older worker refuses a newer major version. It is the version divided by 100.
MAJOR: Final = 1

_FIRST: Final = (
    """
    CREATE TABLE syncagent_run (
        id text PRIMARY KEY,
        run_id text NOT NULL UNIQUE,
        owner text NOT NULL,
        agent text NOT NULL,
        conversation text NOT NULL,
        conversation_key text NOT NULL,
        labels text NOT NULL,
        prompt text NOT NULL,
        state text NOT NULL,
        attempt integer NOT NULL DEFAULT 0,
        crashes integer NOT NULL DEFAULT 0,
        worker text,
        nonce text,
        cancel text,
        cancel_mode text,
        cancel_at double precision,
        step integer NOT NULL DEFAULT 0,
        tail text NOT NULL DEFAULT '',
        begun text NOT NULL DEFAULT '[]',
        messages integer NOT NULL DEFAULT 0,
        questions text NOT NULL DEFAULT '[]',
        live_questions text NOT NULL DEFAULT '[]',
        seconds_left double precision,
        events integer NOT NULL DEFAULT 0,
        has_log integer NOT NULL DEFAULT 1,
        deliveries integer NOT NULL DEFAULT 0,
        due_at double precision NOT NULL,
        answer_by double precision,
        unfollowed_seconds double precision,
        followed_until double precision,
        result text NOT NULL DEFAULT '',
        error text NOT NULL DEFAULT '',
        created_at double precision NOT NULL,
        ended_at double precision
    )
    """,
    # One live run for each conversation, on any host.
    """
    CREATE UNIQUE INDEX syncagent_run_conversation ON syncagent_run (conversation_key)
    WHERE ended_at IS NULL
    """,
    """
    CREATE INDEX syncagent_run_last ON syncagent_run (conversation_key, ended_at)
    """,
    """
    CREATE INDEX syncagent_run_live ON syncagent_run (created_at)
    WHERE ended_at IS NULL
    """,
    "CREATE INDEX syncagent_run_owner ON syncagent_run (owner, created_at)",
    "CREATE INDEX syncagent_run_ended ON syncagent_run (ended_at)",
    "CREATE INDEX syncagent_run_log ON syncagent_run (ended_at) WHERE has_log = 1",
    "CREATE INDEX syncagent_run_worker ON syncagent_run (worker)",
    """
    CREATE TABLE syncagent_message (
        conversation_key text NOT NULL,
        n integer NOT NULL,
        body text NOT NULL,
        calls text NOT NULL,
        PRIMARY KEY (conversation_key, n)
    )
    """,
    """
    CREATE TABLE syncagent_event (
        run_id text NOT NULL,
        n integer NOT NULL,
        count integer NOT NULL,
        attempt integer NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (run_id, n)
    )
    """,
    """
    CREATE TABLE syncagent_answer (
        run_id text NOT NULL,
        interrupt text NOT NULL,
        body text NOT NULL,
        given_by text NOT NULL,
        nonce text NOT NULL,
        given_at double precision NOT NULL,
        PRIMARY KEY (run_id, interrupt)
    )
    """,
    """
    CREATE TABLE syncagent_worker (
        id text PRIMARY KEY,
        host text NOT NULL,
        pid integer NOT NULL,
        version text NOT NULL,
        until double precision NOT NULL
    )
    """,
)

_CONVERSATIONS: Final = (
    """
    CREATE TABLE syncagent_conversation (
        key text PRIMARY KEY,
        id text NOT NULL,
        owner text NOT NULL,
        title text NOT NULL DEFAULT '',
        labels text NOT NULL DEFAULT '{}',
        version integer NOT NULL,
        nonce text NOT NULL DEFAULT '',
        tail text NOT NULL DEFAULT '',
        messages integer NOT NULL DEFAULT 0,
        head_at double precision,
        created_at double precision NOT NULL,
        changed_at double precision NOT NULL
    )
    """,
    """
    CREATE INDEX syncagent_conversation_owner
    ON syncagent_conversation (owner, changed_at)
    """,
    """
    CREATE INDEX syncagent_conversation_changed ON syncagent_conversation (changed_at)
    """,
    # Those that runs of the first version have begun.
    """
    INSERT INTO syncagent_conversation
        (key, id, owner, version, created_at, changed_at)
    SELECT conversation_key, conversation, owner, count(*), min(created_at),
        max(created_at)
    FROM syncagent_run WHERE conversation <> ''
    GROUP BY conversation_key, conversation, owner
    """,
    # Whose questions they are, by the id of the question, and since when they wait.
    "ALTER TABLE syncagent_run ADD COLUMN approvers text NOT NULL DEFAULT '{}'",
    "ALTER TABLE syncagent_run ADD COLUMN asked_at double precision",
    """
    CREATE TABLE syncagent_audit (
        id text PRIMARY KEY,
        run_id text NOT NULL,
        owner text NOT NULL,
        agent text NOT NULL,
        conversation text NOT NULL,
        approver text NOT NULL,
        question text NOT NULL,
        kind text NOT NULL,
        answer text NOT NULL,
        given_by text NOT NULL,
        asked_at double precision,
        given_at double precision NOT NULL
    )
    """,
    "CREATE INDEX syncagent_audit_owner ON syncagent_audit (owner, given_at)",
    "CREATE INDEX syncagent_audit_approver ON syncagent_audit (approver, given_at)",
    "CREATE INDEX syncagent_audit_given ON syncagent_audit (given_at)",
    "CREATE INDEX syncagent_audit_run ON syncagent_audit (run_id)",
)

#: The statements that lead from one version to the next.
MIGRATIONS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (100, _FIRST),
    (101, _CONVERSATIONS),
)
#: The version of this code.
VERSION: Final = MIGRATIONS[-1][0]
