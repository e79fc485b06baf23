"""Agents' memory across jobs: memory stores of pages, and the tool that reads and writes them."""
