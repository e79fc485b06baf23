"""A capability: lines about agents and a digest of their job, for people, made beside the work by a small model."""
