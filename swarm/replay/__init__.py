"""Histories of jobs: export, import, reading, checks against today's code, branches, comparison.

A job is never rewound. A branch of its history is a new job, which begins with the same requests.
"""
