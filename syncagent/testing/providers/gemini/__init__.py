"""A fake of Google's Gemini API."""
