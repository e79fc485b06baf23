"""One live model of a job, for all watchers: a snapshot, and patches that fold into it."""
