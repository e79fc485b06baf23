"""The ground that everything stands on: errors, ids, settings, records, the log."""
