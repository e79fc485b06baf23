"""The past of jobs: taken out as a file and put in again, looked at, checked against today's code, branched from, compared.

A job is never rewound. What goes on from its past is a new job, which begins with the same requests.
"""
