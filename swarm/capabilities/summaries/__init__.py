"""A capability: lines about agents and a digest of their job, written for people by a small model beside the work."""
