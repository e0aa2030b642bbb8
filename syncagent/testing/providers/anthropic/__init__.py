"""A fake of Anthropic's Messages API."""
