"""A fake of OpenAI's Chat Completions."""
