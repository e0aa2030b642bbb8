"""Runs of a store without an engine: threads of the process that submits them."""

import os

from shop import make_agent

from syncagent.stores import RunStore

store = RunStore(os.environ["SYNCAGENT_STORE"], make_agent)
