"""What happens in a job, for all who watch: typed events, and live snapshots with their patches."""
