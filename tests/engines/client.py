"""The web application of a recipe: submits, delivers and answers as it is told.

Each line of its input is a JSON list: the name of a function here, and its arguments.
Each line of its output is the JSON of what the function returned.
"""

import importlib
import json
import sys


def submit(store, labels):
    return store.submit("Go.", labels=labels)


def deliver(store, id, times):
    """Hand a run to the engine, as often as told: also one that it has had before."""
    for _ in range(times):
        store._enqueue(store.get(id))


def answer(store, id, value):
    questions = store.get(id).interrupts
    return store.answer(id, {each.id: value for each in questions}, by="client")


def main(recipe):
    store = importlib.import_module(recipe).store
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *args = json.loads(line)
        print(json.dumps(globals()[name](store, *args)), flush=True)
    store.close(0.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
