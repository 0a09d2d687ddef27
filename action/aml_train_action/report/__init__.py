"""The summary of a run or promotion, in Markdown."""
