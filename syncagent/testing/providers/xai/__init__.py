"""A fake of xAI's Responses API."""
