"""Agents' optional features, a folder each: its domain, its tools, its Lua and its words for the model."""
