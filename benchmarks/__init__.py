"""Speed and memory of syncagent, as ratios to a floor measured in the same run."""
