"""The hub: a git server for snapshots of workspaces, with one bare repository per job.

Guarantees:

- The first push to `/FOLDER/NAME.git` makes that repository. Objects that a folder's repositories share can be pushed once, to
  `/FOLDER/base.git` as `refs/swarm/base/…`: later repositories borrow them, and pushes carry only new objects.
- An existing ref is never changed or deleted: a repository only grows, up to its share of the disk, and is removed whole.
- An answered push is in the repository; an interrupted one has changed nothing visible.
- Nothing is served without the token, and only git's own three requests are. Pushed content is never run.
"""
