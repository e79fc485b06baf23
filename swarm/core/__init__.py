"""Foundations: errors, ids, settings, records, the log."""
