"""The hub: a git server for the snapshots of workspaces, one bare repository for each job.

What is promised:

- `/FOLDER/NAME.git` is a repository, made by the first push to it. What the repositories of a folder have in common can be pushed once, to
  `/FOLDER/base.git` as `refs/swarm/base/…`: those made later borrow its objects, and a push to them carries what is new alone.
- A ref that is there is never changed or deleted, by nobody: a repository only grows, up to its share of the disk, and is removed whole.
- A push that was answered is in the repository; one that broke off, at any moment, has changed nothing that can be seen.
- Nothing is served without the token, and nothing but git's own three requests. Nothing that was pushed is ever run.
"""
