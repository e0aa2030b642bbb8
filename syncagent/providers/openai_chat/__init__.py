"""The dialect of OpenAI's Chat Completions, and of everything compatible with it."""
