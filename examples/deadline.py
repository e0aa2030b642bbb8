"""Give a whole job a deadline, and one part of it a shorter one.

Run it: python examples/deadline.py
"""

from syncagent import Cancelled, CancelToken


def ask_a_slow_service(token):
    token.sleep(3600)
    return "an answer"


def main():
    with_deadline = CancelToken(timeout=0.5)

    # One attempt may take a tenth of a second. Its end is not the end of the job.
    attempt = with_deadline.child(timeout=0.1)
    try:
        print(ask_a_slow_service(attempt))
    except Cancelled as stop:
        print(f"attempt ended by {stop.origin}; the job: {with_deadline!r}")

    # The job's own deadline ends every attempt, however long that might take.
    attempt = with_deadline.child(timeout=60)
    try:
        print(ask_a_slow_service(attempt))
    except Cancelled as stop:
        print(f"attempt ended by {stop.origin}; the job: {with_deadline!r}")


if __name__ == "__main__":
    main()
