"""Run llmock until standard input ends; print its address first."""

import sys

from llmock.testing import LLMockServer

if __name__ == "__main__":
    with LLMockServer() as server:
        print(server.url, flush=True)
        sys.stdin.read()
