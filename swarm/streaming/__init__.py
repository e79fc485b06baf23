"""Streams of a job for watchers: typed events, and live snapshots with their patches."""
