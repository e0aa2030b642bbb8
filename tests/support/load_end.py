"""Check all runs of a load test, when they have ended, against what was promised."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median

from support.store_work import effects, log_of
from syncagent.events import InterruptRaised, RunFinished
from syncagent.testing import complaints


@dataclass
class Report:
    """The counts of a load test, and all that was wrong."""

    ends: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    most_live: int = 0
    resumed: int = 0
    most_crashes: int = 0
    busy: int = 0
    kills: int = 0
    terms: int = 0
    restarts: int = 0
    cancels: Counter = field(default_factory=Counter)
    waits: list = field(default_factory=list)
    answers: Counter = field(default_factory=Counter)
    #: Calls of cancellers and the submitter that were repeated.
    retries: int = 0
    #: Deliveries that a worker gave up because the store was unavailable.
    refused: int = 0
    effects: int = 0
    repeated: int = 0
    doubled: int = 0
    made_up: int = 0
    wrong_receipts: int = 0
    wrong_audits: int = 0
    invalid: int = 0
    lost: int = 0
    stuck: int = 0
    seconds: float = 0.0
    #: What was wrong, in words.
    wrong: list = field(default_factory=list)

    @property
    def table(self):
        """The counts as lines of a table."""
        true, false = self.cancels[True], self.cancels[False]
        waits = sorted(self.waits) or [0.0]
        lines = {
            "runs": sum(self.ends.values()),
            "... live at once, at most": self.most_live,
            **{f"... {state}": self.ends[state] for state in ("done", "cancelled")},
            "... failed or at a limit": self.ends["failed"] + self.ends["limit"],
            "... resumed after a crash": self.resumed,
            "... crashes of one run, at most": self.most_crashes,
            "effects of tools": self.effects,
            "interrupted calls": self.outcomes["interrupted"],
            "workers killed (kill -9)": self.kills,
            "workers ended (SIGTERM)": self.terms,
            "restarts of the database": self.restarts,
            "cancels, true / false": f"{true} / {false}",
            "cancel to the stored end, median / worst": (
                f"{median(waits) * 1000:.0f} ms / {waits[-1]:.1f} s"
            ),
            "answers, taken / over / refused": " / ".join(
                str(self.answers[each]) for each in ("taken", "over", "refused")
            ),
            "StoreUnavailable, then repeated": self.retries + self.refused,
            "idempotent effects that were repeated": self.repeated,
            "doubled effects": self.doubled,
            "results without an effect": self.made_up,
            "wrong receipts": self.wrong_receipts,
            "wrong entries in the audit": self.wrong_audits,
            "invalid conversations": self.invalid,
            "lost runs": self.lost,
            "stuck runs": self.stuck,
            "seconds": round(self.seconds),
        }
        width = max(map(len, lines)) + 2
        return "\n".join(f"{name:{width}}{value}" for name, value in lines.items())

    def say(self, count, text):
        """Count something that is wrong, and remember it."""
        setattr(self, count, getattr(self, count) + 1)
        self.wrong.append(f"{count}: {text}")


def check_runs(store, ids, told, report):
    """Check each run, receipt, answer and effect."""
    asked = {}
    states = {}
    for id in ids:
        run = store.get(id)
        if run is None:
            report.say("lost", id)
            continue
        states[id] = run.state
        report.ends[run.state] += 1
        report.resumed += run.crashes > 0
        report.most_crashes = max(report.most_crashes, run.crashes)
        if run.state not in ("done", "cancelled"):
            report.wrong.append(f"{run.state}: {run.error}")
        check_effects(run, report)
        if not run.is_live:
            asked |= check_log(store, run, report)
    for desk in told:
        report.retries += desk["retries"]
    check_receipts(states, told, report)
    check_answers(store, asked, told, report)


def check_effects(run, report):
    """Check what the tools of a run have done against what the run says."""
    times = Counter(call_id for _, call_id, _ in effects(run))
    report.effects += times.total()
    for call_id, count in times.items():
        if count > 1 and call_id.startswith("put"):
            report.repeated += count - 1
        elif count > 1:
            report.say("doubled", f"{call_id} of {run}")
    if run.result is None:
        return
    outcomes = {each.call_id: each.outcome for each in run.result.tool_outcomes}
    report.outcomes.update(outcomes.values())
    for call_id in outcomes.keys() | times.keys():
        outcome, count = outcomes.get(call_id, "unknown"), times[call_id]
        may_be = {"done": count > 0, "interrupted": True, "abandoned": True}
        if not may_be.get(outcome, count == 0):
            report.say("made_up", f"{call_id} {outcome}, {count} effects, of {run}")
    found = complaints(run.result.messages)
    if found:
        report.say("invalid", f"{found} of {run}")


def check_log(store, run, report):
    """Check the events of a run; return its questions, with the end of the run."""
    try:
        events = log_of(store, run)
    except AssertionError as error:
        report.say("invalid", f"events: {error} of {run}")
        return {}
    ends = sum(isinstance(event, RunFinished) for event in events)
    if ends != (run.result is not None):
        report.say("invalid", f"{ends} ends in the events of {run}")
    raised = [event for event in events if isinstance(event, InterruptRaised)]
    asked = {(run.run_id, each.id) for event in raised for each in event.interrupts}
    return dict.fromkeys(asked, run.state)


def check_receipts(states, told, report):
    """A receipt is true if and only if the run then ends as cancelled; one is first."""
    receipts, unknown = defaultdict(list), set()
    for desk in told:
        unknown.update(desk["unknown"])
        for id, *receipt in desk["receipts"]:
            receipts[id].append(receipt)
    for id, state in states.items():
        firsts = 0
        for is_live, is_first, phase, has_ended, seconds in receipts[id]:
            report.cancels[is_live] += 1
            firsts += is_first
            if is_live:
                report.waits.append(seconds)
            is_right = state == "cancelled" if is_live else state == phase
            if not is_right or not has_ended:
                report.say("wrong_receipts", f"{receipts[id]} of a run that is {state}")
        # The reply of the one that counts may have been lost.
        allowed = {int(state == "cancelled")} | ({0} if id in unknown else set())
        if firsts not in allowed:
            report.say("wrong_receipts", f"{firsts} first: {receipts[id]}, {state}")


def check_answers(store, asked, told, report):
    """The record has one entry for each question, which is the answer that counted."""
    entries = Counter()
    kinds = {}
    for entry in store.audit(limit=100_000):
        key = (entry.run_id, entry.question.id)
        entries[key] += 1
        kinds[key] = (entry.kind, entry.by)
    seen = {(run_id, asked) for each in told for run_id, asked, *_ in each["answers"]}
    for key in asked.keys() | entries.keys() | seen:
        # Cancelled while it asks: the question was in no inbox.
        has_asked = key in seen or asked.get(key) != "cancelled"
        if entries[key] > 1 or (has_asked and entries[key] == 0) or key not in asked:
            report.say("wrong_audits", f"{entries[key]} entries for {key}")
    taken, unknown = Counter(), set()
    for desk in told:
        unknown.update(desk["unknown"])
        for run_id, question, by, status in desk["answers"]:
            report.answers[status] += 1
            if status == "taken":
                taken[run_id, question] += 1
                kind = "approved" if by.endswith("True") else "denied"
                if kinds.get((run_id, question)) != (kind, by):
                    report.say("wrong_audits", f"{by} took {question}: {kinds}")
    for key, (kind, by) in kinds.items():
        allowed = {int(kind != "withdrawn")} | ({0} if key[1] in unknown else set())
        if taken[key] not in allowed:
            report.say("wrong_audits", f"{taken[key]} taken of {key}: {kind} {by}")
