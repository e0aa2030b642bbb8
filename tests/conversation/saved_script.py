"""Another process: load saved agents, go on with them, and print what came of it."""

import sys

import msgspec
from support.questions import KEY, do, model, open_door, outcomes, said_to_model, wonder
from support.threads import until

from syncagent import Agent, Limits, tool
from syncagent.driver import Finished
from syncagent.exceptions import SyncAgentError

free = tool(name="free")(do.function)
TOOLS = [do, open_door, wonder, free]
ANSWERS = {"ApprovalRequest": True, "AuthRequest": KEY, "AwaitingInput": "so"}


def answer_for(asked):
    """Return what is answered, whatever it is."""
    return ANSWERS[type(asked).__name__]


def by_resume(agent, output):
    """Go on until nothing waits any more."""
    result = None
    while agent.is_paused:
        given = {asked.id: answer_for(asked) for asked in agent.interrupts}
        result = agent.resume(given, output=output)
    return result


def by_drive(agent, output):
    """Pull it to the end of the run, if there is one."""
    with agent.drive(output=output) as driver:
        while not isinstance(step := driver.next(), Finished):
            if not getattr(step, "call_id", "") and step.id.startswith("input:"):
                return None
            if step.is_blocking:
                driver.answer(step.id, answer_for(step))
        return step.result


def by_start(agent, output):
    """Have a thread go on, if there is something to go on with."""
    if not agent.is_paused:
        return None
    with agent.start(output=output) as handle:
        while not handle.done():
            until(lambda: handle.interrupts or handle.done())
            for asked in handle.interrupts:
                handle.answer(asked.id, answer_for(asked))
        return handle.result(0)


FACES = {"resume": by_resume, "drive": by_drive, "start": by_start}


def go_on(job):
    """Return what becomes of one saved agent."""
    output = int if job.get("output") else None
    agent = Agent.load(
        job["state"], model('{"value": 7}'), tools=TOOLS, limits=Limits(tool_calls=50)
    )
    before = agent.save()
    result = FACES[job["face"]](agent, output)
    return {
        "is_same": before == job["state"],
        "stop": result and result.stop_reason,
        "run_id": result and result.run_id,
        "turns": result and result.turns,
        "output": result and result.output,
        "text": result and result.text,
        "cost": result and result.cost,
        "outcomes": outcomes(result) if result else [],
        "told": said_to_model(agent.messages),
        "usage": agent.usage.input_tokens,
        "rules": len(agent.rules),
        "messages": msgspec.to_builtins(agent.messages),
    }


def main(path):
    """Do all jobs of a file, and print what came of each."""
    done = []
    with open(path, "rb") as file:
        jobs = msgspec.json.decode(file.read())
    for job in jobs:
        try:
            done.append(go_on(job))
        except SyncAgentError as error:
            done.append({"error": f"{type(error).__name__}: {error}"})
    print(msgspec.json.encode(done).decode())


if __name__ == "__main__":
    main(sys.argv[1])
