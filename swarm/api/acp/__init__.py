"""The fleet as an agent of the Agent Client Protocol, which editors speak: a session is a job.

Version 1 of the protocol, as JSON-RPC lines. `server` answers the editor's requests, `session` follows a job for it, `thread` and `voice`
turn the job's live model and journals into updates, `questions` brings its questions to the person.

The official Python SDK is not used. Its models drop fields that they do not know, also child sessions, which agents of a tree need, and
it would be one more dependency for 100 lines of JSON-RPC. The tests use it as the editor.
"""
