"""Rules of DeepSeek."""
