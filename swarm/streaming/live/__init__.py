"""One live model of a job, for everybody who watches: a snapshot, and patches that fold into it."""
