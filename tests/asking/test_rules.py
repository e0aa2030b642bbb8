"""Answers that are remembered, and who must be asked in the first place."""

import pytest
from support.questions import (
    DO,
    asking,
    check_usable,
    do,
    doing,
    model,
    outcomes,
    said_to_model,
    the_one,
)

from syncagent import Agent, Approval, ConfigurationError, Rule, tool
from syncagent.hooks import Change
from syncagent.interrupts import RuleBook
from syncagent.testing import call, say


class Person:
    """Answers what it was told to, and notes what it was asked."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)

    def __call__(self, request):
        self.asked.append(request.arguments)
        return self._answers.pop(0) if self._answers else True


def runs(agent, number):
    """Return what became of the calls of as many runs."""
    return [outcomes(agent.run("Do it."))[0] for _ in range(number)]


def rounds(*what):
    """Return a script of runs that each do one of these things."""
    return [entry for each in what for entry in (doing(each), "ok")]


# -- remembering -----------------------------------------------------------------------


@pytest.mark.parametrize("remember", [True, "tool"])
@pytest.mark.parametrize("allow", [True, False])
def test_an_answer_for_the_tool(allow, remember):
    """Yes and no alike go for all later calls of it, whatever the arguments."""
    person = Person(Approval(allow, reason="so", remember=remember))
    agent = asking(*rounds("a", "b", "c"), approve=person)
    outcome = "done" if allow else "denied"
    assert runs(agent, 3) == [outcome] * 3
    assert person.asked == [{"what": "a"}]
    assert agent.rules == (Rule("do", allow, None, "so"),)
    if not allow:  # the model is told the same each time
        assert said_to_model(agent.messages) == ["Denied: so"] * 3


@pytest.mark.parametrize("allow", [True, False])
def test_an_answer_for_these_arguments(allow):
    """It goes for those, and others are asked about."""
    person = Person(Approval(allow, remember="arguments"), not allow)
    agent = asking(*rounds("a", "b", "a"), approve=person)
    outcome = {True: "done", False: "denied"}
    assert runs(agent, 3) == [outcome[allow], outcome[not allow], outcome[allow]]
    assert person.asked == [{"what": "a"}, {"what": "b"}]


def test_an_answer_is_not_remembered_unasked():
    """Each call is asked about anew."""
    person = Person(True, False, Approval(True, remember=False))
    agent = asking(*rounds("a", "a", "a"), approve=person)
    assert runs(agent, 3) == ["done", "denied", "done"]
    assert (len(person.asked), agent.rules) == (3, ())


@tool(name="do", requires_approval=True)
def take(what: float | bool | str | None, more: int = 0) -> str:
    """Take what comes."""
    return f"took {what!r}"


@pytest.mark.parametrize("other", ['{"what":1.0}', '{"what":true}', '{"what":"1"}'])
def test_arguments_that_python_takes_for_the_same(other):
    """1, 1.0, true and "1" are four things to be asked about."""
    person = Person(Approval(True, remember="arguments"), False)
    script = [say(call("do", '{"what":1}')), "ok", say(call("do", other)), "ok"]
    agent = Agent(model(*script), tools=[take], approve=person)
    assert runs(agent, 2) == ["done", "denied"]
    assert len(person.asked) == 2


def test_the_order_of_arguments_does_not_matter():
    """Nor do spaces: it is the same call."""
    person = Person(Approval(True, remember="arguments"), False)
    spelled = ['{"what":1,"more":2}', '{ "more" : 2, "what" : 1 }']
    script = [entry for each in spelled for entry in (say(call("do", each)), "ok")]
    agent = Agent(model(*script), tools=[take], approve=person)
    assert runs(agent, 2) == ["done", "done"]
    assert len(person.asked) == 1


def test_nothing_and_null_are_two_things():
    """An argument that is left away is not one that is null."""
    person = Person(Approval(True, remember="arguments"), False)

    @tool(name="do", requires_approval=True)
    def maybe(what: str | None = "all") -> str:
        """Do it."""
        return str(what)

    script = [say(call("do", "{}")), "ok", say(call("do", '{"what":null}')), "ok"]
    agent = Agent(model(*script), tools=[maybe], approve=person)
    assert runs(agent, 2) == ["done", "denied"]


def test_changed_arguments_are_the_ones_that_are_remembered():
    """What was allowed is what was called, and not what the model had wanted."""
    person = Person(Approval(True, {"what": "safe"}, remember="arguments"), False)
    agent = asking(*rounds("wild", "wild", "safe"), approve=person)
    assert runs(agent, 3) == ["done", "denied", "done"]
    assert agent.rules == (Rule("do", True, {"what": "safe"}),)
    assert person.asked == [{"what": "wild"}] * 2


def test_a_denial_does_not_look_at_changed_arguments():
    """A no to these arguments is remembered for these arguments."""
    no = Approval(False, {"what": "other"}, remember="arguments")
    agent = asking(*rounds("a", "a", "other"), approve=Person(no))
    assert runs(agent, 3) == ["denied", "denied", "done"]


def test_what_was_remembered_is_not_what_somebody_changes_later():
    """The rule has arguments of its own."""

    def approve(request):
        request.arguments["what"] = "everything"
        return Approval(True, remember="arguments")

    agent = asking(*rounds("a"), approve=approve)
    runs(agent, 1)
    assert agent.rules == (Rule("do", True, {"what": "a"}),)


def test_the_paused_and_the_driven_remember_too():
    """It is the answer that counts, not who has brought it."""
    agent = asking(*rounds("a", "b"))
    agent.run("Do it.")
    agent.resume({the_one(agent).id: Approval(True, remember=True)})
    assert runs(agent, 1) == ["done"]
    agent = asking(doing("a"), doing("b"))
    with agent.drive("Do it.") as driver:
        driver.next().deny("never", remember="tool")
    assert agent.rules == ()  # the run was closed before it heard that
    with agent.drive("Again.") as driver:
        driver.next().deny("never", remember="tool")
        driver.next()
    assert agent.rules == (Rule("do", False, None, "never"),)


# -- which rule counts -----------------------------------------------------------------


def test_the_specific_comes_before_the_general():
    """However old it is, and whichever of the two says no."""
    for exact in (True, False):
        rules = [Rule("do", exact, {"what": "a"}), Rule("do", not exact)]
        for given in (rules, rules[::-1]):
            agent = asking(*rounds("a", "b"), rules=given)
            word = {True: "done", False: "denied"}
            assert runs(agent, 2) == [word[exact], word[not exact]]


def test_the_newer_comes_before_the_older():
    """A rule for the same replaces it."""
    agent = asking(*rounds("a"), rules=[Rule("do", True), Rule("do", False, None, "x")])
    assert runs(agent, 1) == ["denied"]
    assert agent.rules == (Rule("do", False, None, "x"),)


def test_rules_are_for_the_tool_that_they_name():
    """Another one is asked about."""
    agent = asking(DO, rules=[Rule("other", True), Rule("d", True), Rule("", True)])
    assert agent.run("Do it.").stop_reason == "interrupt"


def test_a_rule_asks_nobody_and_denies_nothing_that_need_not_be_approved():
    """It stands for an answer, and nobody would have asked."""
    free = tool(name="do")(do.function)
    agent = asking(DO, tools=[free], rules=[Rule("do", False)])
    assert outcomes(agent.run("Do it.")) == ["done"]


def test_rules_that_are_none():
    """What could only be misunderstood later is refused."""
    for wrong in (["do"], [("do", True)], [Rule("do", "no")], [None]):
        with pytest.raises(ConfigurationError, match="a rule must be Rule"):
            asking(rules=wrong)
    with pytest.raises(ConfigurationError, match="remember"):
        Approval(True, remember="always")


def test_arguments_that_json_has_no_word_for():
    """A rule for them is refused; a call with them is like no other."""
    with pytest.raises(ConfigurationError, match="must be JSON values"):
        asking(rules=[Rule("do", True, {"what": object()})])

    @tool(name="do", requires_approval=True)
    def odd(what: list) -> str:
        """Take what a hook gives."""
        return "took it"

    class Hook:
        def before_tool(self, event):
            return Change({"what": [object()]})

    script = [say(call("do", {"what": []})), "ok"] * 2
    agent = Agent(
        model(*script), tools=[odd], hooks=[Hook()], rules=[Rule("do", True, {})]
    )
    assert agent.run("Do it.").stop_reason == "interrupt"
    agent.resume({the_one(agent).id: Approval(True, remember=True)})
    assert runs(agent, 1) == ["done"]


def test_rules_of_a_state_come_before_those_that_are_given():
    """Who loads it has the last word, for example to forbid what was allowed."""
    agent = asking(rules=[Rule("do", False), Rule("wonder", True)])
    other = Agent.load(
        agent.save(), model(), rules=[Rule("do", True), Rule("more", True)]
    )
    assert set(map(repr, other.rules)) == set(
        map(repr, [Rule("do", True), Rule("more", True), Rule("wonder", True)])
    )


def test_to_forget_is_to_be_asked_again():
    """Rules that were given and those that were learned alike."""
    person = Person(Approval(True, remember=True))
    agent = asking(*rounds("a", "b", "c"), approve=person)
    runs(agent, 2)
    agent.forget_rules()
    assert (agent.rules, runs(agent, 1)) == ((), ["done"])
    assert len(person.asked) == 2


def test_a_fork_has_rules_of_its_own():
    """It begins with those that are there, and learns for itself."""
    person = Person(Approval(True, remember="arguments"))
    agent = asking(*rounds("a"), approve=person)
    runs(agent, 1)
    other = agent.fork()
    assert other.rules == agent.rules != ()
    other.forget_rules()
    assert agent.rules
    agent.model._script[:0] = rounds("a", "a")
    assert runs(other, 1) == runs(agent, 1) == ["done"]
    assert len(person.asked) == 2


def test_a_timeout_is_not_remembered():
    """Nobody has said anything that could go for the next time."""
    late = Approval(False, remember=True, timed_out=True)
    person = Person(late, True)
    agent = asking(*rounds("a", "b"), approve=person)
    assert runs(agent, 2) == ["not_started", "done"]
    assert agent.rules == ()


# -- who must be asked -----------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True, "a", "b"])
@pytest.mark.parametrize("own", [False, True, "a", "b"])
def test_the_agent_and_the_tool_say_who_must_be_asked(whole, own):
    """One of them is enough; a function is given arguments and context."""
    seen = []

    def needs(said):
        def function(arguments, ctx):
            seen.append((ctx.tool_name, ctx.call_id))
            return arguments["what"] == said

        return function if isinstance(said, str) else said

    made = tool(name="do", requires_approval=needs(own))(do.function)
    person = Person(False, False)
    agent = asking(
        doing("a", "b"),
        tools=[made],
        approve=person,
        requires_approval=needs(whole),
    )
    agent.run("Do it.")
    asked = [each["what"] for each in person.asked]
    assert asked == [
        each for each in "ab" if whole in (True, each) or own in (True, each)
    ]
    assert {name for name, _ in seen} <= {"do"}


def test_the_agent_says_it_for_all_tools():
    """Those that do not ask for it are asked about, and rules go for them."""
    free = tool(name="do")(do.function)
    agent = asking(*rounds("a", "b"), tools=[free], requires_approval=True)
    agent.run("Do it.")
    agent.resume({the_one(agent).id: Approval(True, remember=True)})
    assert runs(agent, 1) == ["done"]
    assert asking(DO, tools=[free]).run("Do it.").stop_reason == "end_turn"


@pytest.mark.parametrize("wrong", [None, "yes", 1, lambda arguments: True])
def test_what_says_nothing_about_who_must_be_asked(wrong):
    """It is refused when the agent is made."""
    with pytest.raises(ConfigurationError, match="requires_approval"):
        asking(requires_approval=wrong)


def test_a_function_that_raises_lets_nothing_run():
    """Its error goes up, and the agent goes on."""
    free = tool(name="do")(do.function)
    agent = asking(DO, requires_approval=lambda arguments, ctx: 1 / 0, tools=[free])
    with pytest.raises(ZeroDivisionError):
        agent.run("Do it.")
    assert "did it" not in said_to_model(agent.messages)
    check_usable(agent)


@pytest.mark.parametrize(
    ("said", "reason"), [("costs 900 euros", "costs 900 euros"), (True, "")]
)
def test_whoever_is_asked_is_told_why(said, reason):
    """A policy that says why has its words shown; they are kept in a saved state."""
    free = tool(name="do")(do.function)
    agent = asking(DO, requires_approval=lambda arguments, ctx: said, tools=[free])
    (asked,) = agent.run("Go on.").interrupts
    assert asked.reason == reason
    again = Agent.load(agent.save(), model("fine"), tools=[free])
    assert again.interrupts[0].reason == reason


def test_a_function_that_asks_the_user():
    """Nobody can be asked before a tool is called: it is an error, and no hang."""
    free = tool(name="do")(do.function)
    agent = asking(
        DO,
        tools=[free],
        requires_approval=lambda arguments, ctx: ctx.ask("Is it?") == "yes",
        ask=lambda question: "yes",
    )
    with pytest.raises(Exception, match="no one to ask"):
        agent.run("Do it.")
    check_usable(agent)


def test_a_function_that_changes_what_it_is_shown():
    """What is called is what the model has said, checked, and what a person saw."""

    def spoil(arguments, ctx):
        arguments["what"] = "spoilt"
        return True

    person = Person()
    agent = asking(DO, requires_approval=spoil, approve=person)
    agent.run("Do it.")
    assert person.asked == [{"what": "it"}]
    assert said_to_model(agent.messages) == ["did it"]


@pytest.mark.parametrize("allow", [True, False])
def test_what_a_handler_remembers_goes_for_the_rest_of_the_round(allow):
    """It has said "always" about a tool, and is not asked about the next call of it."""
    asked = []

    def approve(request):
        asked.append(request.call_id)
        return Approval(allow, remember=True, reason="always")

    agent = asking(doing("a", "b", "c"), approve=approve)
    outcome = "done" if allow else "denied"
    assert outcomes(agent.run("Go.")) == [outcome] * 3
    assert asked == ["c0"]


def test_exact_arguments_go_for_the_same_ones_of_the_round():
    """Others are asked about."""
    asked = []

    def approve(request):
        asked.append(request.arguments["what"])
        return Approval(True, remember="arguments")

    agent = asking(doing("a", "b", "a"), approve=approve)
    assert outcomes(agent.run("Go.")) == ["done"] * 3
    assert asked == ["a", "b"]


# -- patterns --------------------------------------------------------------------------


def found(rules, name, **arguments):
    """Return whether a call is allowed, or None if a person is asked."""
    rule = RuleBook(rules).find(name, arguments)
    return None if rule is None else rule.allow


@pytest.mark.parametrize(
    ("pattern", "fits", "other"),
    [
        ("fs_*", ["fs_read", "fs_", "fs_a-b"], ["fs", "FS_read", "my_fs_read"]),
        ("read_?", ["read_a"], ["read_", "read_ab"]),
        ("fs_[rw]*", ["fs_read", "fs_w"], ["fs_delete"]),
        ("fs_[!d]*", ["fs_read"], ["fs_delete"]),
        ("*", ["anything"], []),
    ],
)
def test_a_pattern_stands_for_names(pattern, fits, other):
    """Case counts, and the whole name has to fit."""
    rules = [Rule(pattern, allow=True)]
    assert [found(rules, name) for name in fits] == [True] * len(fits)
    assert [found(rules, name) for name in other] == [None] * len(other)


def test_which_rule_counts():
    """Exact names before patterns, arguments before none, and a no before a yes."""
    one = Rule("fs_read", allow=True)
    assert found([Rule("fs_*", allow=False), one], "fs_read") is True
    denied = Rule("fs_*", allow=False, arguments={"path": "x"})
    assert found([denied, one], "fs_read", path="x") is True
    assert found([denied, Rule("*", allow=True)], "fs_read", path="x") is False
    assert found([denied, Rule("*", allow=True)], "fs_read", path="y") is True
    both = [Rule("fs_*", allow=True), Rule("*_read", allow=False)]
    assert found(both, "fs_read") is False
    assert found(both[::-1], "fs_read") is False
    exact = [Rule("fs_read", True, {"path": "x"}), Rule("fs_read", False)]
    assert found(exact, "fs_read", path="x") is True
    assert found(exact, "fs_read", path="y") is False


def test_a_pattern_in_a_run_and_after_a_load():
    """Nobody is asked, and a saved state has the pattern; answers remember names."""
    person = Person(Approval(True, remember=True))
    rules = [Rule("d*", allow=False, reason="never")]
    agent = asking(*rounds("a"), approve=person, rules=rules)
    assert runs(agent, 1) == ["denied"]
    assert person.asked == []
    loaded = Agent.load(agent.save(), model(*rounds("b")), tools=agent.tools)
    assert loaded.rules == (Rule("d*", False, None, "never"),)
    assert runs(loaded, 1) == ["denied"]
    loaded = asking(*rounds("a"), approve=person, rules=[Rule("x*", allow=False)])
    assert runs(loaded, 1) == ["done"]
    assert [rule.tool for rule in loaded.rules] == ["x*", "do"]


@pytest.mark.parametrize("name", ["fs_*", "read?", "a[b]"])
def test_no_tool_has_the_name_of_a_pattern(name):
    """A pattern cannot be mistaken for a name."""
    with pytest.raises(ConfigurationError):
        tool(name=name)(do.function)
