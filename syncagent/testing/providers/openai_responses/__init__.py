"""A fake of OpenAI's Responses API."""
